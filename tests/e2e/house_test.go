package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/fpm"
	"github.com/coatcheck/coatcheck/sidecar/wire"
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

// ---- the daemon ----

func (h *house) startDaemon() {
	h.t.Helper()
	env := []string{"COATCHECK_LOG_FORMAT=json"}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "COATCHECK_") {
			env = append(env, variable)
		}
	}
	if w := theStage.worker; w != nil {
		env = append(env, fmt.Sprintf("COATCHECK_SOCKET_GROUP=%d", w.gid))
	}
	var err error
	h.daemon, err = start(filepath.Join(h.dir, "daemon.log"), append(env, h.in(h.plan.daemon)...),
		theStage.daemon, "serve", "--socket", h.socket, "--admin", "unix:"+h.admin)
	if err != nil {
		h.t.Fatal(err)
	}
	eventually(h.t, 10*time.Second, "the daemon is ready", func() (bool, string) {
		status, body := h.page("/readyz")
		return status == http.StatusOK, body
	})
}

// page returns one of the daemon's pages; status 0 and the reason when it does not answer.
func (h *house) page(path string) (status int, body string) {
	r, err := h.pages.Get("http://admin" + path)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(content)
}

func (h *house) pause()  { h.daemon.signal(syscall.SIGSTOP) }
func (h *house) resume() { h.daemon.signal(syscall.SIGCONT) }

// logged returns the daemon's log lines with this message.
func (h *house) logged(message string) []map[string]any {
	h.t.Helper()
	var found []map[string]any
	for line := range strings.SplitSeq(strings.TrimSpace(h.daemonLog()), "\n") {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			h.t.Fatalf("a line of the daemon's log is not JSON: %s", line)
		}
		if entry["msg"] == message {
			found = append(found, entry)
		}
	}
	return found
}

func (h *house) daemonLog() string {
	h.t.Helper()
	content, err := os.ReadFile(filepath.Join(h.dir, "daemon.log"))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(content)
}

// hold is one holder of a lock, as the daemon shows it.
type hold struct {
	Token  string `json:"token"`
	Fence  uint64 `json:"fence"`
	HeldMs int64  `json:"held_ms"`
	PID    int    `json:"pid"`
	Script string `json:"script"`
}

// lock is an entry of the daemon's list of locks.
type lock struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Holders []hold `json:"holders"`
}

func (h *house) locks() []lock {
	h.t.Helper()
	var list []lock
	h.list("/v1/locks", &list)
	return list
}

// record is an entry of the daemon's list of sessions.
type record struct {
	ID    string `json:"id"`
	Size  int    `json:"size"`
	TTLMs int64  `json:"ttl_ms"`
}

func (h *house) records() []record {
	h.t.Helper()
	var list []record
	h.list("/v1/sessions", &list)
	return list
}

func (h *house) list(page string, into any) {
	h.t.Helper()
	status, body := h.page(page)
	if status != http.StatusOK {
		h.t.Fatalf("%s answered %d: %s", page, status, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		h.t.Fatalf("%s: %v in %s", page, err, body)
	}
}

// record returns the record of a visitor's session.
func (h *house) record(v *visitor) (record, bool) {
	h.t.Helper()
	for _, r := range h.records() {
		if r.ID == short(v.id) {
			return r, true
		}
	}
	return record{}, false
}

// holder returns who holds the lock of a visitor's session.
func (h *house) holder(v *visitor) (hold, bool) {
	h.t.Helper()
	for _, l := range h.locks() {
		if l.Kind == "session" && l.Name == short(v.id) {
			return l.Holders[0], true
		}
	}
	return hold{}, false
}

// awaitHolder waits until a request holds the lock of a visitor's session.
func (h *house) awaitHolder(v *visitor) hold {
	h.t.Helper()
	var holder hold
	eventually(h.t, 5*time.Second, "the session is locked", func() (held bool, seen string) {
		holder, held = h.holder(v)
		return held, fmt.Sprintf("%d waiters, locks %v", h.status("waiters"), h.locks())
	})
	return holder
}

// awaitNextHolder waits until another request than the one given holds the lock.
func (h *house) awaitNextHolder(v *visitor, before hold) hold {
	h.t.Helper()
	var next hold
	eventually(h.t, 10*time.Second, "the lock has passed on", func() (bool, string) {
		holder, held := h.holder(v)
		next = holder
		return held && holder.Fence > before.Fence, fmt.Sprint(h.locks())
	})
	return next
}

// awaitWaiters waits until so many requests wait for locks.
func (h *house) awaitWaiters(n int64) {
	h.t.Helper()
	eventually(h.t, 5*time.Second, fmt.Sprintf("%d requests wait", n), func() (bool, string) {
		waiters := h.status("waiters")
		return waiters == n, fmt.Sprintf("%d waiters, locks %v", waiters, h.locks())
	})
}

// awaitNoLocks waits until no lock is left. The end of a request is told to the daemon without waiting for an answer,
// so the list may be a moment behind the page.
func (h *house) awaitNoLocks() {
	h.t.Helper()
	eventually(h.t, 2*time.Second, "no lock is left", func() (bool, string) {
		locks := h.locks()
		return len(locks) == 0, fmt.Sprint(locks)
	})
}

// ask sends one request of the client protocol.
func (h *house) ask(method string, params wire.Pairs) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, h.socket, "e2e")
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Call(ctx, method, params)
}

// status returns a number of server.status.
func (h *house) status(name string) int64 {
	h.t.Helper()
	answer, err := h.ask("server.status", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	n, ok := answer.(map[string]any)[name].(int64)
	if !ok {
		h.t.Fatalf("server.status has no number %s: %v", name, answer)
	}
	return n
}

// ---- php-fpm ----

func (h *house) startPool() {
	h.t.Helper()
	ini, conf := filepath.Join(h.dir, "php.ini"), filepath.Join(h.dir, "fpm.conf")
	h.write(ini, h.phpIni())
	h.write(conf, h.fpmConf())
	var err error
	h.pool, err = start(filepath.Join(h.dir, "fpm.log"), append(os.Environ(), "PHP_INI_SCAN_DIR="),
		theStage.fpm, "-F", "-y", conf, "-c", ini)
	if err != nil {
		h.t.Fatal(err)
	}
	pool, err := fpm.NewPool(fpm.PoolConfig{Address: h.fpmAddress()})
	if err != nil {
		h.t.Fatal(err)
	}
	eventually(h.t, 10*time.Second, "php-fpm answers its ping", func() (bool, string) {
		err := pool.Ping(context.Background())
		return err == nil, fmt.Sprint(err, "\n", tail(h.pool.log))
	})
}

func (h *house) write(path, content string) {
	h.t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) fpmAddress() string { return "unix:" + filepath.Join(h.dir, "fpm.sock") }

// phpIni buffers the output so that a script may start several sessions, and shows errors in the page.
func (h *house) phpIni() string {
	lines := append([]string{
		"extension=" + theStage.extension,
		"session.save_handler=coatcheck",
		`session.save_path="unix://` + h.socket + `"`,
		"coatcheck.socket=" + h.socket,
		"auto_prepend_file=" + filepath.Join(theStage.scripts, "prepend.php"),
		"output_buffering=On",
		"error_reporting=E_ALL",
		"display_errors=On",
		"html_errors=Off",
		"log_errors=Off",
		"session.serialize_handler=php_serialize",
		"session.gc_probability=0",
		"memory_limit=256M",
		"opcache.enable=Off",
	}, h.plan.ini...)
	return strings.Join(lines, "\n") + "\n"
}

func (h *house) fpmConf() string {
	workers := h.plan.workers
	if workers == 0 {
		workers = 4
	}
	lines := []string{
		"[global]", "error_log=" + filepath.Join(h.dir, "fpm.log"), "daemonize=no", "rlimit_core=0",
		"[e2e]", "listen=" + filepath.Join(h.dir, "fpm.sock"), "listen.mode=0600", "listen.backlog=511",
		"pm=static", fmt.Sprintf("pm.max_children=%d", workers), "ping.path=/ping",
		"catch_workers_output=yes",
	}
	if w := theStage.worker; w != nil {
		lines = append(lines, "user="+w.name, fmt.Sprintf("group=%d", w.gid))
	}
	return strings.Join(append(lines, h.in(h.plan.pool)...), "\n") + "\n"
}

// workers returns the pids of php-fpm's workers.
func (h *house) workers() []int {
	h.t.Helper()
	path := fmt.Sprintf("/proc/%d/task/%[1]d/children", h.pool.pid())
	content, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	var pids []int
	for field := range strings.FieldsSeq(string(content)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			h.t.Fatalf("%s: %s", path, content)
		}
		pids = append(pids, pid)
	}
	return pids
}

// killWorker sends a signal to one of php-fpm's workers.
func (h *house) killWorker(pid int, s syscall.Signal) {
	h.t.Helper()
	if s == syscall.SIGSEGV {
		h.crashes.Add(1)
	}
	if err := syscall.Kill(pid, s); err != nil {
		h.t.Fatalf("kill worker %d: %v", pid, err)
	}
}

// startFront serves the scripts without the daemon's help, so that they answer while it is down.
func (h *house) startFront() {
	h.t.Helper()
	log, err := os.Create(filepath.Join(h.dir, "front.log"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { log.Close() })
	front, err := fpm.NewFront(fpm.Config{
		Address: h.fpmAddress(), Docroot: theStage.scripts,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { front.Close() })
	h.front = httptest.NewServer(front)
	h.client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
}

// gate makes a request that has until=gate in its query stay in its script until the gate opens.
type gate struct {
	h    *house
	path string
}

func (h *house) gate() gate {
	return gate{h, filepath.Join(h.dir, "gates", strconv.FormatInt(h.gates.Add(1), 10))}
}

func (g gate) open() {
	g.h.t.Helper()
	g.h.write(g.path, "")
}

// sign is a file into which a script writes a number when it has come to a certain point.
type sign struct {
	h    *house
	path string
}

func (h *house) sign() sign {
	return sign{h, filepath.Join(h.dir, "files", "sign-"+strconv.FormatInt(h.gates.Add(1), 10))}
}

// await waits for the sign and returns the number.
func (s sign) await() (n int) {
	s.h.t.Helper()
	eventually(s.h.t, 10*time.Second, "the script gives its sign", func() (bool, string) {
		content, err := os.ReadFile(s.path)
		line, whole := strings.CutSuffix(string(content), "\n")
		if err == nil && whole {
			n, err = strconv.Atoi(line)
		}
		return whole && err == nil, fmt.Sprint(line, err)
	})
	return n
}

// cli runs a script by the php command, with the extension loaded.
func (h *house) cli(script string, args ...string) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	command := append([]string{"-c", filepath.Join(h.dir, "php.ini"), filepath.Join(theStage.scripts, script)}, args...)
	cmd := exec.CommandContext(ctx, theStage.php, command...)
	cmd.Env = append(os.Environ(), "PHP_INI_SCAN_DIR=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("php %s: %v\n%s", script, err, out)
	}
	return string(out)
}
