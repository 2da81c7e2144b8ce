package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// lease is how long a client of the crowd has a lock unless its host renews it.
const lease = 3 * time.Second

// outcome is what became of a visit.
type outcome int

const (
	stored     outcome = iota // and acknowledged
	busy                      // others had the lock for the whole wait
	notDone                   // unavailable: nothing was done
	superseded                // the write was refused, for the lock was another's by then
	unknownOpen
	unknownCommit
	away // the host's daemon is not there
	odd  // anything else, which fails the test
	outcomes
)

var outcomeNames = [outcomes]string{"stored", "busy", "not done", "superseded", "unknown open", "unknown commit", "away", "odd"}

func (o outcome) String() string { return outcomeNames[o] }

// visit is what one request did and saw. Times are since the crowd began.
type visit struct {
	host                           int
	called, granted, storing, over time.Duration
	fence                          int64
	read, wrote                    int
	what                           outcome
	why                            string
}

// session is a session that counts, and everybody's visits to it.
type session struct {
	id    string
	hosts []*host // on which its clients are
	owner *host   // that decided it when it was made
	byPHP bool    // the clients are requests to php-fpm

	mu     sync.Mutex
	visits []visit // in the order in which they ended; guarded by mu
}

// crowd is clients that count in sessions, one of each session on each of its hosts.
type crowd struct {
	t        testing.TB
	team     *team
	began    time.Time
	base     time.Duration // began by the clock that all processes share
	sessions []*session
	finish   context.CancelFunc
	clients  sync.WaitGroup
}

// invite starts the clients of sessions. think is how long each stays away between two visits, on average.
func (g *team) invite(sessions []*session, think time.Duration) *crowd {
	ctx, finish := context.WithCancel(context.Background())
	c := &crowd{t: g.t, team: g, began: time.Now(), base: monotonic(), sessions: sessions, finish: finish}
	for i, s := range sessions {
		for _, h := range s.hosts {
			random := mrand.New(mrand.NewPCG(theStage.seed, uint64(100*i+h.index)))
			v := &visitor{crowd: c, session: s, host: h}
			c.clients.Go(func() { v.visitUntil(ctx, random, think) })
		}
	}
	g.t.Cleanup(c.leave)
	return c
}

// sessions makes sessions with clients on hosts. Nothing else may go on meanwhile.
func (g *team) sessions(n int, hosts ...*host) []*session {
	made := make([]*session, n)
	for i := range made {
		id := randomHex()
		made[i] = &session{id: id, hosts: hosts, owner: g.ownerOf(id)}
	}
	return made
}

// phpSessions makes sessions whose clients are requests to the php-fpm of hosts.
func (g *team) phpSessions(n int, hosts ...*host) []*session {
	made := g.sessions(n, hosts...)
	for _, s := range made {
		s.byPHP = true
	}
	return made
}

func randomHex() string {
	b := make([]byte, 16)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// monotonic returns the time of CLOCK_MONOTONIC, as PHP's hrtime does.
func monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // every kernel has this clock
	}
	return time.Duration(now.Nano())
}

// leave has all clients finish their visits and go.
func (c *crowd) leave() {
	c.finish()
	c.clients.Wait()
}

// now returns the time since the crowd began.
func (c *crowd) now() time.Duration { return time.Since(c.began) }

// awaitAll waits until each session was stored by a visit that began now or later on each of its hosts that is not left out.
func (c *crowd) awaitAll(without ...*host) {
	c.t.Helper()
	from := c.now()
	eventually(c.t, patience, "all sessions are served everywhere", func() (bool, string) {
		for _, s := range c.sessions {
			for _, h := range s.hosts {
				if !slices.Contains(without, h) && !s.storedSince(from, h.index) {
					return false, fmt.Sprintf("session %s on %s: %s", s.id[:6], h, s.last(h.index))
				}
			}
		}
		return true, ""
	})
}

func (s *session) storedSince(from time.Duration, host int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.visits) - 1; i >= 0 && s.visits[i].over > from; i-- {
		if v := &s.visits[i]; v.host == host && v.what == stored && v.called >= from {
			return true
		}
	}
	return false
}

func (s *session) last(host int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.visits) - 1; i >= 0; i-- {
		if s.visits[i].host == host {
			return fmt.Sprintf("%+v", s.visits[i])
		}
	}
	return "no visit"
}

// visitor is one client: it has one connection to its host's daemon.
type visitor struct {
	crowd   *crowd
	session *session
	host    *host
	conn    *client.Client // nil: none
}

func (v *visitor) visitUntil(ctx context.Context, random *mrand.Rand, think time.Duration) {
	pause := time.NewTimer(time.Duration(random.Int64N(int64(2 * think))))
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			v.hangUp()
			return
		case <-pause.C:
		}
		one := v.count(time.Duration(random.IntN(4)) * time.Millisecond)
		one.over = v.crowd.now()
		v.session.mu.Lock()
		v.session.visits = append(v.session.visits, one)
		v.session.mu.Unlock()
		switch one.what {
		case stored, busy, superseded:
		default:
			v.hangUp() // the daemon releases what may be held
		}
		pause.Reset(time.Duration(random.Int64N(int64(2*think))) + time.Millisecond)
	}
}

func (v *visitor) hangUp() {
	if v.conn != nil {
		v.conn.Close()
		v.conn = nil
	}
}

func (v *visitor) count(stay time.Duration) visit {
	if !v.session.byPHP {
		return v.visit(stay)
	}
	called := v.crowd.now()
	one := v.host.see(v.session.id, v.crowd.base)
	one.called = called
	return one
}

// answerWithin is how long a client waits for an answer, beyond the wait for a lock: longer than the extension does.
const answerWithin = 15 * time.Second

// visit counts once, and has the session open for a while.
func (v *visitor) visit(stay time.Duration) (one visit) {
	one = visit{host: v.host.index, called: v.crowd.now(), what: away}
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	if v.conn == nil {
		conn, err := v.host.dial(ctx)
		if err != nil {
			one.why = err.Error()
			return one
		}
		v.conn = conn
	}
	token := randomHex()
	one.called = v.crowd.now()
	answer, err := v.conn.Call(ctx, "session.open", pairs("id", v.session.id, "token", token, "lease_ms", lease.Milliseconds(), "wait_ms", 5000))
	one.granted = v.crowd.now()
	if err != nil {
		one.what, one.why = failure(err, unknownOpen), err.Error()
		return one
	}
	opened, _ := answer.(map[string]any)
	one.fence = fence(opened["fence"])
	if one.read, err = count(opened["data"]); err != nil || opened["locked"] != true || one.fence < 0 {
		one.what, one.why = odd, fmt.Sprintf("%v, %v", opened, err)
		return one
	}
	one.wrote = one.read + 1
	v.conn.Idle(ctx, stay)
	one.storing = v.crowd.now()
	answer, err = v.conn.Call(ctx, "session.commit", pairs("id", v.session.id, "token", token, "fence", one.fence,
		"data", []byte(strconv.Itoa(one.wrote)), "ttl_ms", 3_600_000, "release", true))
	if err != nil {
		one.what, one.why = failure(err, unknownCommit), err.Error()
		return one
	}
	one.what = stored
	if done, _ := answer.(map[string]any); done["stored"] != true {
		one.what, one.why = odd, fmt.Sprint(answer)
	}
	return one
}

// fence reads an integer as the client gives it.
func fence(n any) int64 {
	switch n := n.(type) {
	case int64:
		return n
	case uint64:
		return int64(n)
	}
	return -1
}

// count reads what a visit wrote.
func count(data any) (int, error) {
	var text string
	switch d := data.(type) {
	case []byte:
		text = string(d)
	case string:
		text = d
	}
	if text == "" {
		return 0, nil
	}
	return strconv.Atoi(text)
}

// failure says what an error means, which is unknown when nobody can say what became of the request.
func failure(err error, unknown outcome) outcome {
	var e *wire.Error
	if !errors.As(err, &e) {
		return unknown // the connection ended, or no answer came
	}
	switch e.Code {
	case wire.Busy:
		return busy
	case wire.Unavailable:
		return notDone
	case wire.Unreachable:
		return unknown
	case wire.Refused:
		for _, d := range e.Details {
			if d.Key == "reason" && d.Value == "superseded" {
				return superseded
			}
		}
	}
	return odd
}

// tally counts the outcomes of all visits that ended since a time, on hosts that are not left out.
func (c *crowd) tally(since time.Duration, without ...*host) (n [outcomes]int) {
	for _, s := range c.sessions {
		s.mu.Lock()
		for i := range s.visits {
			v := &s.visits[i]
			if v.over >= since && !slices.Contains(without, c.team.hosts[v.host]) {
				n[v.what]++
			}
		}
		s.mu.Unlock()
	}
	return n
}

func tallied(n [outcomes]int) string {
	var b strings.Builder
	for o, n := range n {
		if n > 0 {
			fmt.Fprintf(&b, "%s %d, ", outcome(o), n)
		}
	}
	return strings.TrimSuffix(b.String(), ", ")
}
