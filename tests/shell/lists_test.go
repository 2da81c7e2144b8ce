package shell

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// lock is an entry of locks --json.
type lock struct {
	Kind    string
	Name    string
	Bucket  string
	Waiters int
	Holders []struct {
		PID    int
		Script string
		Fence  uint64
		HeldMs int64 `json:"held_ms"`
		Token  string
	}
}

func (h *house) locks() (list []lock) {
	h.t.Helper()
	r := h.run("locks", "--json")
	if err := json.Unmarshal([]byte(r.out), &list); r.code != 0 || err != nil {
		h.t.Fatalf("locks --json: %s: %v", r, err)
	}
	return list
}

// connections returns how many connections the daemon has, the one that asks included.
func (h *house) connections() float64 {
	h.t.Helper()
	var status map[string]any
	r := h.run("status", "--json")
	if err := json.Unmarshal([]byte(r.out), &status); err != nil {
		h.t.Fatalf("status --json: %s: %v", r, err)
	}
	n, _ := status["connections"].(float64)
	return n
}

// visit opens a session, and leaves a record when it commits. Without a commit the lock stays held by the connection, which
// ends with the test.
func (h *house) visit(id, prefix string, commit bool) {
	h.t.Helper()
	c := h.dial()
	h.t.Cleanup(func() { c.Close() })
	call := func(method string, params wire.Pairs) map[string]any {
		h.t.Helper()
		answer, err := c.Call(h.t.Context(), method, params)
		if err != nil {
			h.t.Fatal(err)
		}
		m, _ := answer.(map[string]any)
		return m
	}
	named := wire.Pairs{{Key: "id", Value: id}, {Key: "prefix", Value: prefix}, {Key: "token", Value: "t-" + id}}
	opened := call("session.open", append(named, wire.Pair{Key: "script", Value: "/srv/www/cart.php"}))
	if commit {
		call("session.commit", append(named, wire.Pair{Key: "fence", Value: opened["fence"]},
			wire.Pair{Key: "data", Value: "cart|i:1;"}, wire.Pair{Key: "ttl_ms", Value: 1_430_000},
			wire.Pair{Key: "release", Value: true}))
	}
}

const (
	alice = "3f9ac1d2e4b5a6978812ffeeddccbbaa"
	bob   = "3f9ac1ffffffffffffffffffffffffff"
	carol = "c0ffee00112233445566778899aabbcc"
)

func TestLocksShowWhoHoldsWhat(t *testing.T) {
	h := open(t)
	s, _ := h.holdLock("nightly", "--bucket", "jobs")
	h.visit(alice, "shop", false)
	table := h.run("locks")
	for _, want := range []string{"KIND ", "nightly ", "jobs ", "session ", "3f9ac1… ", "shop ", "/srv/www/cart.php "} {
		if !strings.Contains(table.out, want) {
			t.Errorf("the table lacks %q:\n%s", want, table.out)
		}
	}
	if strings.Contains(table.out, alice) || strings.Contains(h.run("locks", "--json").out, alice) {
		t.Error("a list shows a whole session id")
	}
	for _, l := range h.locks() {
		switch {
		case len(l.Holders) != 1 || l.Holders[0].Fence == 0 || len([]rune(l.Holders[0].Token)) != 7:
			t.Errorf("%v: want one holder with a fence and a shortened token", l)
		case l.Kind == "lock" && (l.Name != "nightly" || l.Holders[0].PID != s.cmd.Process.Pid):
			t.Errorf("%v: want lock nightly of process %d", l, s.cmd.Process.Pid)
		case l.Kind == "session" && (l.Name != "3f9ac1…" || l.Bucket != "shop"):
			t.Errorf("%v: want session 3f9ac1… under the prefix shop", l)
		}
	}
	r := h.run("locks", "--limit", "1")
	if strings.Count(r.out, "\n") != 2 || !strings.Contains(r.err, "first 1") {
		t.Errorf("--limit 1: %s", r)
	}
}

// Names come from scripts: none may steer the operator's terminal.
func TestNamesCannotSteerTheTerminal(t *testing.T) {
	h := open(t)
	h.holdLock("\x1b[2Jnice\nline")
	r := h.run("locks")
	if strings.Contains(r.out, "\x1b") || !strings.Contains(r.out, `"\x1b[2Jnice\nline"`) {
		t.Fatal(r)
	}
}

func TestWatchShowsTheLocksAgainAndAgain(t *testing.T) {
	h := open(t)
	s := h.begin("locks", "--watch", "--json", "--interval", "10ms")
	s.expect("[]")
	h.holdLock("l")
	eventually(t, "the lock is shown", func() (bool, string) {
		line := s.line()
		return strings.Contains(line, `"name":"l"`), line
	})
	s.signal(syscall.SIGINT)
	s.code()
	if sig := s.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); sig != syscall.SIGINT {
		t.Fatalf("it ended by %v, want the interrupt", sig)
	}
}

func TestReleaseByForce(t *testing.T) {
	h := open(t)
	h.expect(3, "false\n", "locks", "release", "l", "--force")
	h.ask("lock.acquire", wire.Pairs{{Key: "name", Value: "l"}, {Key: "token", Value: "t"}}) // detached
	h.expect(2, "", "locks", "release", "l")
	h.expect(75, "", "lock", "run", "l", "--", "true")
	h.expect(0, `{"released":true}`+"\n", "locks", "release", "l", "--force", "--json")
	h.expect(0, "", "lock", "run", "l", "--", "true")
	if !strings.Contains(h.log.String(), "lock released by force") {
		t.Error("the daemon's log does not tell")
	}
}

func (h *house) sessions(args ...string) (ids []string) {
	h.t.Helper()
	var list []struct {
		ID, Prefix string
		Size       int
		Locked     bool
	}
	r := h.run(append([]string{"sessions", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(r.out), &list); r.code != 0 || err != nil {
		h.t.Fatalf("sessions --json %v: %s: %v", args, r, err)
	}
	for _, s := range list {
		if s.Size != len("cart|i:1;") {
			h.t.Errorf("session %s has %d bytes", s.ID, s.Size)
		}
		ids = append(ids, s.ID)
	}
	return ids
}

func TestSessionsAreShownWithoutTheirIDs(t *testing.T) {
	h := open(t)
	for _, id := range []string{alice, bob, carol} {
		h.visit(id, "", true)
	}
	for _, c := range []struct {
		id   []string
		want int
	}{
		{nil, 3},
		{[]string{"--id", "3f9ac1"}, 2},
		{[]string{"--id", "3f9ac1…"}, 2},
		{[]string{"--id", "c"}, 1},
		{[]string{"--id", alice}, 1},
		{[]string{"--id", alice[:12]}, 0}, // or whole ids could be found out letter by letter
		{[]string{"--id", alice[:7]}, 0},
		{[]string{"--id", "nobody"}, 0},
		{[]string{"--limit", "2"}, 2},
	} {
		if ids := h.sessions(c.id...); len(ids) != c.want {
			t.Errorf("sessions %v lists %v, want %d of them", c.id, ids, c.want)
		}
	}
	r := h.run("sessions")
	for _, id := range []string{alice, bob, carol} {
		if strings.Contains(r.out, id) || !strings.Contains(r.out, id[:6]+"…") {
			t.Errorf("%s: the list is\n%s", id, r.out)
		}
	}
}

func TestReleaseOfASessionByForce(t *testing.T) {
	h := open(t)
	for _, id := range []string{alice, bob, carol} {
		h.visit(id, "shop", false)
	}
	h.expect(2, "", "sessions", "release", carol)
	h.expect(3, "false\n", "sessions", "release", "c0ffee", "--force") // under another prefix
	h.expect(0, "true\n", "sessions", "release", "c0ffee…", "--force", "--prefix", "shop")
	h.expect(3, "false\n", "sessions", "release", carol, "--force", "--prefix", "shop")
	h.expect(77, "", "sessions", "release", "3f9ac1", "--force", "--prefix", "shop")
	h.expect(3, "false\n", "sessions", "release", alice[:12], "--force", "--prefix", "shop")
	h.expect(0, "true\n", "sessions", "release", alice, "--force", "--prefix", "shop")
	h.expect(0, "true\n", "sessions", "release", "3f9ac1", "--force", "--prefix", "shop")
	if locks := h.locks(); len(locks) != 0 {
		t.Fatalf("still held: %v", locks)
	}
	log := h.log.String()
	if n := strings.Count(log, "lock released by force"); n < 1 || n > 2 { // once in ten seconds
		t.Errorf("the log has %d lines of 3 releases", n)
	}
	for _, id := range []string{alice, bob, carol} {
		if strings.Contains(log, id) {
			t.Errorf("the log shows the whole id %s", id)
		}
	}
}

func TestStatusForPeopleAndPrograms(t *testing.T) {
	h := open(t)
	h.expect(0, "true\n", "kv", "set", "k", "v")
	var status map[string]any
	r := h.run("status", "--json")
	if err := json.Unmarshal([]byte(r.out), &status); r.code != 0 || err != nil || status["values"] != 1.0 {
		t.Fatalf("%s: %v", r, err)
	}
	if r := h.run("status"); !strings.Contains(r.out, "values         1\n") {
		t.Fatal(r)
	}
	h.expect(0, `{"pong":true}`+"\n", "ping", "--json")
}

func TestTabOffersWhatThereIs(t *testing.T) {
	h := open(t)
	h.expect(0, "true\n", "kv", "set", "page:front", "x")
	h.expect(0, "true\n", "kv", "set", "page:\nodd", "x")
	h.holdLock("nightly")
	h.holdLock("weekly", "--bucket", "jobs")
	h.visit(carol, "", false)
	const noFiles = ":4\n"
	for _, c := range []struct {
		typed []string
		want  string
	}{
		{[]string{"kv", "get", "page"}, "page:front\n" + noFiles},
		{[]string{"kv", "get", "page:front", ""}, noFiles},
		{[]string{"kv", "del", "page:front", "p"}, "page:front\n" + noFiles},
		{[]string{"lock", "run", "ni"}, "nightly\n" + noFiles},
		{[]string{"locks", "release", ""}, "nightly\n" + noFiles},
		{[]string{"locks", "release", "--bucket", "jobs", ""}, "weekly\n" + noFiles},
		{[]string{"sessions", "release", "c0"}, "c0ffee\n" + noFiles},
		{[]string{"sessions", "release", "x"}, noFiles},
	} {
		h.expect(0, c.want, append([]string{"__complete"}, c.typed...)...)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if r := h.run("completion", shell); r.code != 0 || !strings.Contains(r.out, "coatcheck") {
			t.Errorf("completion %s: %s", shell, r)
		}
	}
	r := h.bash(fmt.Sprintf("source <(%s completion bash) && complete -p coatcheck", program))
	if !strings.Contains(r.out, "__start_coatcheck") {
		t.Errorf("bash does not take the completion: %s", r)
	}
}
