package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// rounds returns how often the daemon is killed in all.
func rounds(t *testing.T) int {
	t.Helper()
	given := os.Getenv("CRASH_ROUNDS")
	if given == "" {
		return 12
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 {
		t.Fatalf("CRASH_ROUNDS is %q, not a number of rounds", given)
	}
	return n
}

// TestNothingAcknowledgedIsLost kills the daemon while writers write, starts it, and has each writer compare what it finds with what
// was acknowledged. Half of the rounds are with the defaults, the others with what else the journal can be told.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	keyFile := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keyFile, []byte(strings.Repeat("5c", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	n := rounds(t)
	for _, mode := range []struct {
		name   string
		rounds int
		env    string
		values bool
	}{
		{"everysec", (n + 1) / 2, "COATCHECK_JOURNAL_FSYNC=everysec", true},
		{"always", (n + 5) / 6, "COATCHECK_JOURNAL_FSYNC=always", true},
		{"values=false", (n + 4) / 6, "COATCHECK_JOURNAL_VALUES=false", false},
		{"sealed", (n + 3) / 6, "COATCHECK_JOURNAL_KEY_FILE=" + keyFile, true},
	} {
		t.Run(mode.name, func(t *testing.T) {
			key, value, _ := strings.Cut(mode.env, "=")
			t.Setenv(key, value)
			began := time.Now()
			kills := crashes(t, mode.rounds, mode.values)
			t.Logf("%d rounds in %v, %v each; killed %s", mode.rounds, time.Since(began).Round(time.Millisecond),
				(time.Since(began) / time.Duration(max(1, mode.rounds))).Round(time.Millisecond), kills)
		})
	}
}

// crashes has writers write until the daemon is killed, so many times, and tells how that went.
func crashes(t *testing.T, rounds int, values bool) string {
	d := place(t, "")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, values)
	acknowledged, early := 0, 0
	for round := range rounds {
		if rnd.IntN(4) == 0 { // while it starts
			d.launch()
			d.await(d.answers)
			d.kill()
			early++
		}
		d.start()
		acknowledged += w.round(d, 1+rnd.IntN(4000))
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	d.start()
	w.check(d)
	return fmt.Sprintf("after %d acknowledged steps in all; %d more times while it started", acknowledged, early)
}

// world is all that writers know.
type world struct {
	t       *testing.T
	values  bool // whether values outlive the daemon
	writers []writer
	acks    atomic.Int64
}

// writer does one kind of thing over and over. After a crash it checks what is left of it.
type writer interface {
	// check compares what is there with what was acknowledged, after a start.
	check(c *caller)
	// step does the next thing.
	step(c *caller)
}

func newWorld(t *testing.T, values bool) *world {
	w := &world{t: t, values: values}
	for i := range 3 {
		w.writers = append(w.writers, &sessionWriter{id: fmt.Sprintf("session-%d", i)})
	}
	for _, name := range []string{"lock-a", "lock-b"} {
		l := &sharedLock{name: name}
		for range 2 {
			w.writers = append(w.writers, &lockWriter{lock: l})
		}
	}
	w.writers = append(w.writers, &counterWriter{key: "counter"}, &valueWriter{keys: make([]known, 8)})
	return w
}

// round lets the writers check and then write until so many steps are acknowledged, and kills the daemon.
func (w *world) round(d *daemon, steps int) (acknowledged int) {
	w.check(d)
	w.acks.Store(0)
	var wg sync.WaitGroup
	enough := make(chan struct{})
	for _, one := range w.writers {
		c := w.caller(d)
		wg.Go(func() {
			defer c.Close()
			for !c.gone && !w.t.Failed() {
				if one.step(c); !c.gone && w.acks.Add(1) == int64(steps) {
					close(enough)
				}
			}
		})
	}
	stopped := make(chan struct{})
	go func() {
		wg.Wait()
		close(stopped)
	}()
	select {
	case <-enough:
	case <-stopped: // something is wrong
	case <-time.After(patience):
		w.t.Errorf("only %d steps in %v", w.acks.Load(), patience)
	}
	d.kill()
	<-stopped
	return int(w.acks.Load())
}

func (w *world) check(d *daemon) {
	for _, one := range w.writers {
		c := w.caller(d)
		one.check(c)
		c.Close()
	}
}

func (w *world) caller(d *daemon) *caller {
	c, err := d.dial()
	if err != nil {
		w.t.Fatal(err)
	}
	return &caller{Client: c, w: w}
}

// caller is a connection that notices when the daemon is gone.
type caller struct {
	*client.Client
	w    *world
	gone bool // the last call was not answered: its outcome is unknown
}

// call returns the result of a request and the code of its error, if any.
func (c *caller) call(method string, params ...wire.Pair) (any, wire.Code) {
	result, err := c.Call(c.w.t.Context(), method, params)
	var e *wire.Error
	switch {
	case err == nil:
		return result, ""
	case errors.As(err, &e):
		return nil, e.Code
	}
	c.gone = true
	return nil, ""
}

func (c *caller) errorf(format string, args ...any) { c.w.t.Errorf(format, args...) }

func p(key string, value any) wire.Pair { return wire.Pair{Key: key, Value: value} }

// number returns an integer of an answer.
func number(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case uint64:
		return int64(n)
	}
	return -1
}

var tokens atomic.Uint64

func newToken() string { return fmt.Sprintf("%032x", tokens.Add(1)) }

// known is what may be under a key: the last that was acknowledged, or what was asked for since without an answer.
type known struct{ sure, maybe string }

const none = "(none)"

// settle takes in what was found, and says whether it may be.
func (k *known) settle(found string) bool {
	ok := found == k.sure || k.maybe != "" && found == k.maybe
	k.sure, k.maybe = found, ""
	return ok
}

// sessionWriter opens a session and commits it with a release, in turn.
type sessionWriter struct {
	id    string
	data  known
	fence int64  // the last one granted
	token string // of a grant that may be held; empty: released for sure
	sure  bool   // it was acknowledged
	n     int
}

const lease = 600_000 // ms: longer than any test

func (s *sessionWriter) open(c *caller) (r map[string]any) {
	result, code := c.call("session.open", p("id", s.id), p("token", s.token), p("lease_ms", lease))
	if code != "" {
		c.errorf("%s: open with the token that nobody else has: %s", s.id, code)
	}
	r, _ = result.(map[string]any)
	return r
}

func (s *sessionWriter) check(c *caller) {
	if s.data.sure == "" {
		s.data.sure = none
	}
	stranger, code := c.call("session.open", p("id", s.id), p("token", "stranger"), p("lease_ms", 1))
	held := code == wire.Busy
	switch {
	case s.sure && !held:
		c.errorf("%s: the held lock was given to another: %v", s.id, stranger)
	case s.token == "" && held:
		c.errorf("%s: the released lock is back", s.id)
	}
	if !held {
		c.call("session.release", p("id", s.id), p("token", "stranger"))
		r, _ := stranger.(map[string]any)
		s.granted(c, r)
	}
	r, _ := c.call("session.open", p("id", s.id))
	read, _ := r.(map[string]any)
	found := none
	if read["found"] == true {
		found = text(read["data"])
	}
	if had := s.data; !s.data.settle(found) {
		c.errorf("%s: found %.30q; acknowledged was %.30q, and asked for since %.30q", s.id, found, had.sure, had.maybe)
	}
	if held {
		s.release(c)
	}
	s.token, s.sure = "", false
}

// release ends what was held across the crash, by its token.
func (s *sessionWriter) release(c *caller) {
	if r, _ := c.call("session.release", p("id", s.id), p("token", s.token)); r != true {
		c.errorf("%s: it is held, and not by the token that asked last", s.id)
	}
}

// granted checks the fence of a new grant.
func (s *sessionWriter) granted(c *caller, r map[string]any) {
	if fence := number(r["fence"]); fence <= s.fence {
		c.errorf("%s: fence %d after %d", s.id, fence, s.fence)
	} else {
		s.fence = fence
	}
}

func (s *sessionWriter) step(c *caller) {
	if s.sure {
		s.commit(c)
		return
	}
	s.token = newToken()
	r := s.open(c)
	if c.gone {
		return
	}
	s.sure = true
	s.granted(c, r)
	if got := text(r["data"]); s.data.sure != none && got != s.data.sure {
		c.errorf("%s: read %.30q, and %.30q was written", s.id, got, s.data.sure)
	}
}

func (s *sessionWriter) commit(c *caller) {
	s.n++
	s.data.maybe = fmt.Sprint(s.n, strings.Repeat(" data", s.n%500))
	s.sure = false // from here on it may be released
	commit, code := c.call("session.commit", p("id", s.id), p("token", s.token), p("fence", s.fence),
		p("data", []byte(s.data.maybe)), p("ttl_ms", lease), p("release", true))
	if c.gone {
		return
	}
	if done, _ := commit.(map[string]any); code != "" || done["stored"] != true || done["released"] != true {
		c.errorf("%s: commit answered %v %s", s.id, commit, code)
	}
	s.data.settle(s.data.maybe)
	s.token = ""
}

func text(v any) string {
	switch b := v.(type) {
	case []byte:
		return string(b)
	case string:
		return b
	}
	return none
}

// sharedLock is a lock that several writers want.
type sharedLock struct {
	name  string
	mu    sync.Mutex
	owner *lockWriter // who holds it for sure; guarded by mu
	fence int64       // the highest granted; guarded by mu
	token string      // whose that is; guarded by mu
}

// lockWriter acquires and releases a detached lock, in turn.
type lockWriter struct {
	lock     *sharedLock
	token    string
	acquired bool // acknowledged, and no release was asked for
	released bool // acknowledged
	asked    bool // an acquisition may have been granted
}

func (l *lockWriter) acquire(c *caller) {
	r, code := c.call("lock.acquire", p("name", l.lock.name), p("token", l.token), p("lease_ms", lease))
	if c.gone || code == wire.Busy {
		return
	}
	l.lock.mu.Lock()
	defer l.lock.mu.Unlock()
	answer, _ := r.(map[string]any)
	fence := number(answer["fence"])
	switch {
	case l.lock.owner != nil && l.lock.owner != l:
		c.errorf("%s: granted to a second holder", l.lock.name)
	case fence < l.lock.fence || fence == l.lock.fence && l.token != l.lock.token:
		c.errorf("%s: fence %d after %d", l.lock.name, fence, l.lock.fence)
	}
	l.lock.owner, l.lock.fence, l.lock.token = l, fence, l.token
	l.acquired, l.released = true, false
}

func (l *lockWriter) release(c *caller) {
	l.lock.mu.Lock()
	if l.lock.owner == l {
		l.lock.owner = nil // from here on another may have it
	}
	l.lock.mu.Unlock()
	sure := l.acquired
	l.acquired = false
	r, code := c.call("lock.release", p("name", l.lock.name), p("token", l.token))
	if c.gone {
		return
	}
	if code != "" || sure && r != true {
		c.errorf("%s: release answered %v %s", l.lock.name, r, code)
	}
	l.released, l.asked = true, false
}

func (l *lockWriter) check(c *caller) {
	r, _ := c.call("lock.info", p("name", l.lock.name), p("token", l.token))
	info, _ := r.(map[string]any)
	owned := info["owned"] == true
	switch {
	case l.acquired && !owned:
		c.errorf("%s: the held lock is not there any more", l.lock.name)
	case l.released && owned:
		c.errorf("%s: the released lock is back", l.lock.name)
	}
	if owned {
		l.acquire(c) // the same grant again: an answer may have been lost
		l.release(c)
	}
}

func (l *lockWriter) step(c *caller) {
	if l.acquired {
		l.release(c)
		return
	}
	if !l.asked {
		l.token, l.asked, l.released = newToken(), true, false
	}
	l.acquire(c)
}

// counterWriter increments.
type counterWriter struct {
	key   string
	value known
	n     int64
}

func (k *counterWriter) check(c *caller) {
	if k.value.sure == "" || !c.w.values {
		k.value = known{sure: none}
	}
	r, _ := c.call("kv.get", p("key", k.key))
	if had := k.value; !k.value.settle(text(r)) {
		c.errorf("%s: found %s; acknowledged was %s, and asked for since %s", k.key, text(r), had.sure, had.maybe)
	}
	k.n, _ = strconv.ParseInt(k.value.sure, 10, 64)
}

func (k *counterWriter) step(c *caller) {
	k.value.maybe = fmt.Sprint(k.n + 1)
	r, _ := c.call("kv.incr_by", p("key", k.key))
	if c.gone {
		return
	}
	k.n++
	if number(r) != k.n {
		c.errorf("%s: the increment to %d answered %v", k.key, k.n, r)
	}
	k.value.settle(k.value.maybe)
}

// valueWriter sets and deletes.
type valueWriter struct {
	keys []known
	n    int
}

func (v *valueWriter) check(c *caller) {
	for i := range v.keys {
		if v.keys[i].sure == "" || !c.w.values {
			v.keys[i] = known{sure: none}
		}
		r, _ := c.call("kv.get", p("key", v.key(i)))
		if had := v.keys[i]; !v.keys[i].settle(text(r)) {
			c.errorf("%s: found %.30q; acknowledged was %.30q, and asked for since %.30q", v.key(i), text(r), had.sure, had.maybe)
		}
	}
}

func (v *valueWriter) key(i int) string { return fmt.Sprint("value-", i) }

func (v *valueWriter) step(c *caller) {
	v.n++
	i := v.n % len(v.keys)
	if v.n%5 == 0 {
		v.keys[i].maybe = none
		c.call("kv.del", p("key", v.key(i)))
	} else {
		v.keys[i].maybe = fmt.Sprint(v.n, strings.Repeat(" value", v.n%300))
		c.call("kv.set", p("key", v.key(i)), p("value", []byte(v.keys[i].maybe)))
	}
	if !c.gone {
		v.keys[i].settle(v.keys[i].maybe)
	}
}
