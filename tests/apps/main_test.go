// Package apps runs small applications of the frameworks that the Composer packages are for, under php-fpm with a
// daemon of their own: tests/apps/<name> is an application, <name>_test.go its test.
//
// Each test opens a [site]. Its files are copies, so that php-fpm's workers, who may look into no checkout, can read
// them and find the packages at the same place beside the application: ../../../composer.
package apps

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
)

// stage is what all tests share.
type stage struct {
	dir       string
	checkout  string
	daemon    string
	extension string
	fpm       string
	worker    *worker // nil: php-fpm's workers run as this user
	missing   string  // what the tests cannot do without and is not there
}

// worker is the user of php-fpm's workers when root runs the tests.
type worker struct {
	name     string
	uid, gid int
}

var theStage stage

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "coatcheck-apps.")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := theStage.set(dir); err != nil {
		fmt.Fprintln(os.Stderr, "apps:", err)
		return 1
	}
	return m.Run()
}

func (s *stage) set(dir string) error {
	checkout, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	s.dir, s.checkout, s.daemon = dir, checkout, filepath.Join(dir, "coatcheck")
	s.extension, s.fpm = filepath.Join(dir, "coatcheck.so"), find("php-fpm8.2", "php-fpm")
	built := filepath.Join(checkout, "phpext-shim/modules/coatcheck.so")
	switch _, err := os.Stat(built); {
	case s.fpm == "":
		s.missing = "php-fpm is not installed"
	case errors.Is(err, fs.ErrNotExist):
		s.missing = built + " is not built: run make ext"
	}
	if s.missing != "" {
		return nil
	}
	if s.worker, err = workerUser(); err != nil {
		return err
	}
	return errors.Join(
		os.Chmod(dir, 0o755),
		copyFile(built, s.extension),
		os.CopyFS(filepath.Join(dir, "composer"), os.DirFS(filepath.Join(checkout, "composer"))),
		os.CopyFS(filepath.Join(dir, "tests/packages"), os.DirFS(filepath.Join(checkout, "tests/packages"))),
		buildDaemon(checkout, s.daemon),
	)
}

// find returns the path of the first program that is there, or "".
func find(names ...string) string {
	for _, name := range names {
		for _, dir := range []string{"", "/usr/sbin/", "/usr/local/sbin/"} {
			if path, err := exec.LookPath(dir + name); err == nil {
				return path
			}
		}
	}
	return ""
}

// workerUser returns a user without rights for php-fpm's workers when root runs the tests, because root may use any socket.
func workerUser() (*worker, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"www-data", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		return &worker{name: name, uid: uid, gid: gid}, errors.Join(uidErr, gidErr)
	}
	return nil, errors.New("root runs the tests and there is no user www-data or nobody for php-fpm's workers")
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

func buildDaemon(checkout, to string) error {
	cmd := exec.Command("go", "build", "-o", to, "./sidecar/cmd/coatcheck")
	cmd.Dir, cmd.Env = checkout, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the daemon: %w\n%s", err, out)
	}
	return nil
}

// needStage skips the test where php-fpm or the extension is missing; a CI run must have them.
func needStage(t *testing.T) {
	t.Helper()
	if theStage.missing == "" {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal(theStage.missing)
	}
	t.Skip(theStage.missing)
}
