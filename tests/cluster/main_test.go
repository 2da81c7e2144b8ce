// Package cluster has several daemons, the built binary, form one store, and checks what a cluster promises while hosts are killed, stopped,
// cut off, slow, leave and join.
//
// Hosts are on addresses of their own in 127.0.0.0/8, or, where packets must be lost, in network namespaces behind a bridge, which
// needs root. Each test makes a [team] of hosts with a [crowd] of clients and, in some, a php-fpm pool for each host, and checks the
// histories of what they saw. Nothing sleeps: tests wait for what they want to see, with a limit.
//
// CLUSTER_LONG=1 has every test do all that it can, which takes some 20 minutes. CLUSTER_SEED is the seed of another run.
package cluster

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// stage is what all tests share.
type stage struct {
	dir       string
	daemon    string // the built binary
	extension string
	scripts   string
	fpm       string
	worker    *user.User // of php-fpm's workers; nil: whoever runs the tests
	missing   string     // what tests with PHP cannot do without and is not there
	long      bool
	seed      uint64
}

var theStage stage

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	// Tests wait for most of their time, so more of them than there are processors may do so at once.
	flag.Set("test.parallel", "4")
	dir, err := os.MkdirTemp("", "coatcheck-cluster.")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := theStage.set(dir); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		return 1
	}
	return m.Run()
}

func (s *stage) set(dir string) error {
	s.dir, s.daemon = dir, filepath.Join(dir, "coatcheck")
	s.long, s.seed = os.Getenv("CLUSTER_LONG") != "", uint64(time.Now().UnixNano())
	if given := os.Getenv("CLUSTER_SEED"); given != "" {
		var err error
		if s.seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			return fmt.Errorf("CLUSTER_SEED: %w", err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-o", s.daemon, "../../sidecar/cmd/coatcheck")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the daemon: %w\n%s", err, out)
	}
	return s.setPHP()
}

// setPHP copies the extension and the scripts to where workers without rights may read them.
func (s *stage) setPHP() error {
	for _, name := range []string{"php-fpm8.2", "php-fpm", "/usr/sbin/php-fpm8.2", "/usr/sbin/php-fpm"} {
		if path, err := exec.LookPath(name); err == nil {
			s.fpm = path
			break
		}
	}
	if s.fpm == "" {
		s.missing = "php-fpm is not installed"
		return nil
	}
	built := "../../phpext-shim/modules/coatcheck.so"
	extension, err := os.ReadFile(built)
	if errors.Is(err, fs.ErrNotExist) {
		s.missing = "the extension is not built: run make ext"
		return nil
	}
	if err != nil {
		return err
	}
	if os.Getuid() == 0 {
		if s.worker, err = user.Lookup("www-data"); err != nil {
			if s.worker, err = user.Lookup("nobody"); err != nil {
				return fmt.Errorf("root runs the tests, and php-fpm's workers need another user: %w", err)
			}
		}
	}
	s.extension, s.scripts = filepath.Join(s.dir, "coatcheck.so"), filepath.Join(s.dir, "php")
	return errors.Join(os.WriteFile(s.extension, extension, 0o644), os.CopyFS(s.scripts, os.DirFS("../php")))
}

// need skips the test when something is missing, unless this is CI, which must have all.
func need(t testing.TB, missing string) {
	t.Helper()
	if missing == "" {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

// either returns the first in the short form and the second in the long form.
func either[T any](short, long T) T {
	if theStage.long {
		return long
	}
	return short
}

// chance returns the test's source of random numbers, and logs the seed.
func chance(t testing.TB) *rand.Rand {
	t.Helper()
	t.Logf("CLUSTER_SEED=%d", theStage.seed)
	return rand.New(rand.NewPCG(theStage.seed, 0))
}
