package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

const testSecret = "correct horse battery staple"

// patience is how long a condition may take to come true.
const patience = time.Minute

// until waits for a condition. see says what was seen last.
func until(t testing.TB, what string, condition func() bool, see func() string) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within %s; last seen: %s", what, patience, see())
		case <-look.C:
		}
	}
}

// brisk makes gossip travel at once, and sees no death before a LAN would: the machine may be busy.
func brisk(c *memberlist.Config) {
	c.GossipInterval, c.PushPullInterval = 20*time.Millisecond, 2*time.Second
}

// hasty makes gossip see a death within seconds.
func hasty(c *Config) {
	c.tune = func(c *memberlist.Config) {
		brisk(c)
		c.ProbeInterval, c.ProbeTimeout, c.SuspicionMult = 400*time.Millisecond, 300*time.Millisecond, 1
	}
}

// logbook keeps the lines of a log.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "")
}

func (l *logbook) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) })
	})
}

// testConfig is for the nth host, 127.0.0.n.
func testConfig(n int) (Config, *logbook) {
	book := &logbook{}
	ip := fmt.Sprintf("127.0.0.%d:0", n)
	return Config{
		ID: "test", Name: fmt.Sprintf("web%d", n), Bind: ip, Advertise: ip, PeerBind: ip,
		Secrets: []string{testSecret}, RejoinEvery: 200 * time.Millisecond,
		Log:  slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug})),
		tune: brisk,
	}, book
}

// begin starts a host that ends with the test.
func begin(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	c, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// gather starts n hosts of one cluster, each with a connection to each other.
func gather(t *testing.T, n int, change ...func(*Config)) []*Cluster {
	t.Helper()
	var all []*Cluster
	for i := range n {
		cfg, _ := testConfig(i + 1)
		if i > 0 {
			cfg.Join = []string{all[0].set.self.gossip}
		}
		for _, f := range change {
			f(&cfg)
		}
		all = append(all, begin(t, cfg))
	}
	meshed(t, all...)
	return all
}

// meshed waits until all hosts have each other as members, as they run now, and are connected.
func meshed(t *testing.T, all ...*Cluster) {
	t.Helper()
	for _, c := range all {
		until(t, c.Self().Name+" has all others", func() bool {
			for _, o := range all {
				if o == c {
					continue
				}
				if m, ok := memberOf(c, o.Self().ID); !ok || m.Boot != o.Self().Boot || !c.Connected(m.ID) {
					return false
				}
			}
			return true
		}, func() string { return fmt.Sprint(c.Members()) })
	}
}

// memberOf returns a host as another has it.
func memberOf(c *Cluster, id string) (Member, bool) {
	all := c.Members()
	i := slices.IndexFunc(all, func(m Member) bool { return m.ID == id })
	if i < 0 {
		return Member{}, false
	}
	return all[i], true
}

// serving is a Handler.
type serving func(ctx context.Context, from string, body []byte) ([]byte, error)

func (f serving) Serve(ctx context.Context, from string, body []byte) ([]byte, error) {
	return f(ctx, from, body)
}

func echo(_ context.Context, _ string, body []byte) ([]byte, error) { return body, nil }

func TestThreeHostsFindEachOtherAndAnswer(t *testing.T) {
	all := gather(t, 3)
	for _, c := range all {
		c.Handle(serving(func(_ context.Context, from string, body []byte) ([]byte, error) {
			return fmt.Appendf(nil, "%s to %s: %s", from, c.Self().Name, body), nil
		}))
	}
	for _, from := range all {
		members := from.Members()
		if len(members) != 3 || !slices.IsSortedFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) }) {
			t.Errorf("the members are %v", members)
		}
		for _, to := range all {
			if from == to {
				continue
			}
			got, err := from.Call(t.Context(), to.Self().ID, false, []byte("well?"))
			if want := from.Self().ID + " to " + to.Self().Name + ": well?"; err != nil || string(got) != want {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		}
	}
}

func TestQuestionsBeforeHandleAreNotSent(t *testing.T) {
	all := gather(t, 2)
	if _, err := all[0].Call(t.Context(), all[1].Self().ID, true, nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("got %v", err)
	}
	if _, err := all[0].Call(t.Context(), newID(), false, nil); !errors.Is(err, ErrNotSent) || !strings.Contains(err.Error(), "no member") {
		t.Errorf("a stranger: %v", err)
	}
}
