package apps

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestLaravelKeepsTwentyOfTwentyParallelRequestsOnOneSession(t *testing.T) {
	eachTransport(t, plan{app: "laravel", workers: 8}, func(t *testing.T, s *site) {
		v := s.visitor()
		v.want("/count", "1")
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := v.get("/count?hold=5"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		v.want("/count", "22")
	})
}

func TestLaravelSessionsSurviveLoginLogoutAFailureAndARestartOfTheDaemon(t *testing.T) {
	eachTransport(t, plan{app: "laravel", workers: 1}, func(t *testing.T, s *site) {
		v := s.visitor()
		v.want("/count", "1")
		v.want("/login", "a new id")
		v.want("/count", "2")
		s.daemon.kill()
		s.startDaemon()
		v.want("/count", "3")
		v.want("/save-early", "saved")
		v.want("/count", "51")
		if body, err := v.get("/fail"); err == nil || body != "failed on purpose" {
			t.Errorf("/fail: %q, %v", body, err)
		}
		v.want("/count", "101") // Laravel saves the session of a request whose failure it could answer
		v.want("/logout", "bye")
		v.want("/count", "1")
		s.visitor().want("/count", "1")
	})
}

func TestLaravelSessionIsFreeWhenItsWorkerIsKilledAndReadOnlyRoutesWaitForNobody(t *testing.T) {
	eachTransport(t, plan{app: "laravel"}, func(t *testing.T, s *site) {
		v := s.visitor()
		v.want("/count", "1")
		stayed := make(chan error, 1)
		go func() {
			_, err := v.get("/stay")
			stayed <- err
		}()
		var pid int
		eventually(t, 10*time.Second, "a worker holds the session", func() (bool, string) {
			content, err := os.ReadFile(filepath.Join(s.app, "var/stays"))
			line, whole := strings.CutSuffix(string(content), "\n")
			if err == nil && whole {
				pid, err = strconv.Atoi(line)
			}
			return pid != 0, fmt.Sprint(line, err)
		})
		v.want("/peek", "1")
		if locks := s.artisan("coatcheck:locks"); !strings.Contains(locks, "GET stay") {
			t.Errorf("coatcheck:locks does not show who holds the session:\n%s", locks)
		}
		must(t, syscall.Kill(pid, syscall.SIGKILL))
		killed := time.Now()
		v.want("/count", "2")
		if took := time.Since(killed); took > 5*time.Second {
			t.Errorf("the next request waited %s, as long as a lease", took)
		}
		if err := <-stayed; err == nil {
			t.Error("the request of the killed worker has an answer")
		}
	})
}

func TestLaravelSessionIsFreeWhenAScriptExitsInTheMiddle(t *testing.T) {
	eachTransport(t, plan{app: "laravel"}, func(t *testing.T, s *site) {
		v := s.visitor()
		v.want("/count", "1")
		v.want("/leave", "left")
		left := time.Now()
		v.want("/count", "2")
		if took := time.Since(left); took > 5*time.Second {
			t.Errorf("the next request waited %s, as long as a lease", took)
		}
	})
}

func TestLaravelLockIsReleasedInAnotherProcess(t *testing.T) {
	eachTransport(t, plan{app: "laravel"}, func(t *testing.T, s *site) {
		v := s.visitor()
		owner, err := v.get("/lock")
		must(t, err)
		if owner == "taken" {
			t.Fatal("nobody had the lock, and it was taken")
		}
		v.want("/lock", "taken")
		for _, worker := range s.workers() {
			must(t, syscall.Kill(worker, syscall.SIGKILL)) // whoever took it
		}
		eventually(t, 10*time.Second, "php-fpm has new workers", func() (bool, string) {
			body, err := v.get("/lock")
			return err == nil && body == "taken", fmt.Sprint(body, err)
		})
		v.want("/unlock?owner="+owner, "released")
		v.want("/unlock?owner="+owner, "not its own")
	})
}

func TestLaravelLimitsRequestsOverAllWorkers(t *testing.T) {
	eachTransport(t, plan{app: "laravel"}, func(t *testing.T, s *site) {
		v := s.visitor()
		for range 3 {
			v.want("/limited", "served")
		}
		if body, err := v.get("/limited"); err == nil || !strings.Contains(err.Error(), "status 429") {
			t.Errorf("the fourth request: %q, %v; want status 429", body, err)
		}
	})
}

func TestLaravelCacheIsSharedAndFlushedForEveryWorker(t *testing.T) {
	eachTransport(t, plan{app: "laravel"}, func(t *testing.T, s *site) {
		v := s.visitor()
		written, err := v.get("/article")
		must(t, err)
		for range 10 {
			v.want("/article", written)
		}
		v.want("/publish", "published")
		again, err := v.get("/article")
		must(t, err)
		if again == written {
			t.Error("the article is still the old one")
		}
		v.want("/article", again)
		if status := s.artisan("coatcheck:status"); !strings.Contains(status, "uptime_ms") {
			t.Errorf("coatcheck:status shows:\n%s", status)
		}
	})
}

// artisan runs a command of the application and returns what it printed.
func (s *site) artisan(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("php", append([]string{filepath.Join(s.app, "artisan")}, args...)...)
	cmd.Env = append(os.Environ(), "COATCHECK_SOCKET="+s.socket)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("artisan %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
