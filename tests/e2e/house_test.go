package e2e

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// plan says how a house differs from the usual one.
type plan struct {
	workers int      // of php-fpm; 0: 4
	ini     []string // more lines of php.ini
	pool    []string // more lines of the pool's configuration; @DIR@ is the house's directory
	daemon  []string // COATCHECK_* variables of the daemon; @DIR@ as well
	absent  bool     // the daemon is not started
}

// in fills in the house's directory.
func (h *house) in(lines []string) []string {
	filled := make([]string, len(lines))
	for i, line := range lines {
		filled[i] = strings.ReplaceAll(line, "@DIR@", h.dir)
	}
	return filled
}

// house is a daemon and a php-fpm that belong together.
type house struct {
	t      *testing.T
	plan   plan
	dir    string
	socket string // of the daemon's client protocol
	admin  string // socket of the daemon's pages
	daemon *process
	pool   *process
	front  *httptest.Server
	client *http.Client // of the front
	pages  *http.Client // of the daemon's pages
	gates  atomic.Int64

	crashes atomic.Int64 // that the test brought about
}

var houses atomic.Int64

// open starts a house, which closes with the test.
func open(t *testing.T, p plan) *house {
	t.Helper()
	needStage(t)
	dir := filepath.Join(theStage.dir, strconv.FormatInt(houses.Add(1), 10))
	h := &house{
		t: t, plan: p, dir: dir,
		socket: filepath.Join(dir, "coatcheck.sock"), admin: filepath.Join(dir, "admin.sock"),
	}
	h.makeDirectories()
	h.pages = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", h.admin)
		},
	}}
	t.Cleanup(h.close)
	if !p.absent {
		h.startDaemon()
	}
	h.startPool()
	h.startFront()
	return h
}

// close ends php-fpm before the daemon, so that its workers find one to commit to.
func (h *house) close() {
	if h.front != nil {
		h.front.CloseClientConnections()
		h.front.Close()
	}
	for _, p := range []*process{h.pool, h.daemon} {
		if p != nil {
			p.end()
		}
	}
	h.findCrashes()
	if h.t.Failed() {
		for _, log := range []string{"daemon.log", "fpm.log", "front.log"} {
			h.t.Logf("the end of %s:\n%s", log, tail(filepath.Join(h.dir, log)))
		}
	}
	os.RemoveAll(h.dir)
}

// findCrashes fails the test for a crash that it did not bring about itself.
func (h *house) findCrashes() {
	for log, crashes := range map[string][]string{
		"daemon.log": {"panic:", "fatal error:", "DATA RACE"},
		"fpm.log":    {"SIGSEGV", "SIGABRT", "SIGBUS"},
	} {
		content, err := os.ReadFile(filepath.Join(h.dir, log))
		if err != nil {
			continue // it was not started
		}
		for _, crash := range crashes {
			if n := strings.Count(string(content), crash); n > int(h.crashes.Load()) {
				h.t.Errorf("%s has %d times %s; the test brought about %d crashes", log, n, crash, h.crashes.Load())
			}
		}
	}
}

func (h *house) makeDirectories() {
	h.t.Helper()
	for _, dir := range []string{h.dir, filepath.Join(h.dir, "gates"), filepath.Join(h.dir, "files")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			h.t.Fatal(err)
		}
	}
	if w := theStage.worker; w != nil {
		if err := os.Chown(filepath.Join(h.dir, "files"), w.uid, w.gid); err != nil {
			h.t.Fatal(err)
		}
	}
}
