// Package e2e shows what coatcheck promises with the real parts: the daemon's binary, the extension in php-fpm's
// workers, and requests over FastCGI. There is one PHP script for each behaviour, in tests/php.
//
// Each test opens a [house] of its own: a daemon and a php-fpm with sockets and logs in a directory of
// their own. Nothing sleeps: a request stays in its script until the test opens a gate, and the test waits for
// what it wants to see, with a limit.
//
// COATCHECK_TEST_RACE=1 builds the daemon with the race detector.
package e2e

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

// stage is what all tests share: the built daemon, copies of the extension and the scripts, and who runs php-fpm's workers.
type stage struct {
	dir       string
	daemon    string
	extension string
	scripts   string
	fpm       string
	php       string
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
	dir, err := os.MkdirTemp("", "coatcheck-e2e.")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := theStage.set(dir); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return m.Run()
}

// set builds and copies. The copies keep a test run whole while somebody builds anew, and are readable for workers that
// may not look into the checkout.
func (s *stage) set(dir string) error {
	checkout, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	s.dir, s.daemon = dir, filepath.Join(dir, "coatcheck")
	s.extension, s.scripts = filepath.Join(dir, "coatcheck.so"), filepath.Join(dir, "php")
	s.fpm, s.php = find("php-fpm8.2", "php-fpm"), find("php8.2", "php")
	built := filepath.Join(checkout, "phpext-shim/modules/coatcheck.so")
	switch _, err := os.Stat(built); {
	case s.fpm == "":
		s.missing = "php-fpm is not installed"
	case s.php == "":
		s.missing = "the php command is not installed"
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
		copyScripts(filepath.Join(checkout, "tests/php"), s.scripts),
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

func copyScripts(from, to string) error {
	scripts, err := filepath.Glob(filepath.Join(from, "*.php"))
	if err != nil {
		return fmt.Errorf("find scripts in %s: %w", from, err)
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	for _, script := range scripts {
		if err := copyFile(script, filepath.Join(to, filepath.Base(script))); err != nil {
			return err
		}
	}
	return nil
}

func buildDaemon(checkout, to string) error {
	args := []string{"build", "-o", to}
	cgo := "CGO_ENABLED=0"
	if os.Getenv("COATCHECK_TEST_RACE") != "" {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(args, "./sidecar/cmd/coatcheck")...)
	cmd.Dir, cmd.Env = checkout, append(os.Environ(), cgo)
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
