package apps

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// eachTransport runs the test with the extension and without.
func eachTransport(t *testing.T, p plan, test func(t *testing.T, s *site)) {
	for _, extension := range []bool{false, true} {
		name := "stream"
		if extension {
			name = "extension"
		}
		t.Run(name, func(t *testing.T) {
			p.extension = extension
			test(t, open(t, p))
		})
	}
}

func TestSymfonyKeepsTwentyOfTwentyParallelRequestsOnOneSession(t *testing.T) {
	eachTransport(t, plan{app: "symfony", workers: 8}, countsTwentyOfTwenty)
}

func TestSymfonyKeepsTwentyOfTwentyWithTheNativeHandlerAsWell(t *testing.T) {
	p := plan{app: "symfony", workers: 8, extension: true, env: map[string]string{"SHOP_SESSIONS": "native"}}
	p.ini = []string{"session.save_handler=coatcheck"}
	countsTwentyOfTwenty(t, open(t, p))
}

func countsTwentyOfTwenty(t *testing.T, s *site) {
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
}

func TestSymfonySessionsSurviveLoginLogoutAndARestartOfTheDaemon(t *testing.T) {
	eachTransport(t, plan{app: "symfony", workers: 1}, func(t *testing.T, s *site) {
		v := s.visitor()
		v.want("/count", "1")
		v.want("/login", "a new id")
		v.want("/count", "2")
		s.daemon.kill()
		s.startDaemon()
		v.want("/count", "3")
		v.want("/logout", "bye")
		v.want("/count", "1")
		s.visitor().want("/count", "1")
	})
}

func TestSymfonyGivesItsOwnIdsToVisitorsWhoBringOthers(t *testing.T) {
	eachTransport(t, plan{app: "symfony"}, func(t *testing.T, s *site) {
		for _, id := range []string{"an-id-of-an-attacker-00000000000", "../../etc/passwd", "", strings.Repeat("a", 300)} {
			request, err := http.NewRequest(http.MethodGet, s.front.URL+"/count", nil)
			must(t, err)
			request.Header.Set("Cookie", "PHPSESSID="+id)
			response, err := http.DefaultClient.Do(request)
			must(t, err)
			must(t, response.Body.Close())
			var given string
			for _, cookie := range response.Cookies() {
				given = cookie.Value
			}
			if response.StatusCode != http.StatusOK || len(given) < 22 || given == id {
				t.Errorf("with the id %q: status %d and the id %q", id, response.StatusCode, given)
			}
		}
	})
}

func TestSymfonySessionIsFreeWhenItsWorkerIsKilled(t *testing.T) {
	eachTransport(t, plan{app: "symfony"}, func(t *testing.T, s *site) {
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

func TestSymfonyLockGoesOnInAnotherProcess(t *testing.T) {
	eachTransport(t, plan{app: "symfony"}, func(t *testing.T, s *site) {
		v := s.visitor()
		key, err := v.get("/lock")
		must(t, err)
		if key == "taken" {
			t.Fatal("nobody had the lock, and it was taken")
		}
		v.want("/lock", "taken")
		for _, worker := range s.workers() {
			must(t, syscall.Kill(worker, syscall.SIGKILL)) // whoever took it
		}
		unlock := "/unlock?key=" + url.QueryEscape(key)
		eventually(t, 10*time.Second, "php-fpm has new workers", func() (bool, string) {
			body, err := v.get("/lock")
			return err == nil && body == "taken", fmt.Sprint(body, err)
		})
		v.want(unlock, "released")
		v.want(unlock, "not its own")
	})
}

func TestSymfonyCacheIsSharedAndInvalidatedForEveryWorker(t *testing.T) {
	eachTransport(t, plan{app: "symfony"}, func(t *testing.T, s *site) {
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
	})
}
