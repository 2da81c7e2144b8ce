package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

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

// pause makes the daemon hang. It returns when all its threads have stopped.
func (h *house) pause() {
	h.t.Helper()
	h.daemon.signal(syscall.SIGSTOP)
	eventually(h.t, 5*time.Second, "the daemon has stopped", func() (bool, string) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", h.daemon.pid()))
		check(h.t, err == nil && len(threads) > 0, "the daemon has no threads: %v", err)
		for _, thread := range threads {
			status, err := os.ReadFile(thread)
			if err != nil || !strings.Contains(string(status), "State:\tT") {
				return false, fmt.Sprintf("%s %v", status, err)
			}
		}
		return true, ""
	})
}

func (h *house) resume() { h.daemon.signal(syscall.SIGCONT) }

// logged returns the daemon's log lines with this message.
func (h *house) logged(message string) []map[string]any {
	h.t.Helper()
	var found []map[string]any
	log := h.daemonLog()
	whole := log[:strings.LastIndex(log, "\n")+1] // it may be writing
	for line := range strings.Lines(whole) {
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
