package cluster

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// team is the hosts of one cluster.
type team struct {
	t     testing.TB
	dir   string
	plan  plan
	hosts []*host
}

// plan says how a team differs from the usual one, of three hosts on loopback with data directories.
type plan struct {
	size     int    // 0: 3
	apart    bool   // each host is in a network namespace of its own
	php      bool   // each host has a php-fpm pool
	memory   bool   // no data directories
	alone    bool   // the only host is in no cluster
	absent   int    // so many of the last hosts are not started
	settings string // more lines of [cluster]

	// own returns more lines of [cluster] that are a host's alone; nil: there are none
	own func(h *host) string

	// peerAdvertise returns what a host tells the others in the place of its address for peers; nil: nothing
	peerAdvertise func(h *host) string
}

var teams atomic.Int64

// form starts a team, which ends with the test, and waits until it serves.
func form(t testing.TB, p plan) *team {
	t.Helper()
	if p.php {
		need(t, theStage.missing)
	}
	if p.size == 0 {
		p.size = 3
	}
	n := teams.Add(1)
	g := &team{t: t, plan: p, dir: filepath.Join(theStage.dir, strconv.FormatInt(n, 10))}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.end)
	g.write(g.secret(), "a secret of a test, which is long enough\n", 0o600)
	for i := range p.size {
		h := &host{team: g, index: i, name: fmt.Sprintf("host%d", i), dir: filepath.Join(g.dir, strconv.Itoa(i)), counted: make(map[string]float64)}
		h.address = fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()%128, n, i+1)
		g.hosts = append(g.hosts, h)
		if err := os.Mkdir(h.dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if p.apart {
		g.separate()
	}
	for _, h := range g.hosts[:p.size-p.absent] {
		h.start()
	}
	if p.alone {
		g.hosts[0].awaitReady()
		return g
	}
	g.awaitOneView(g.hosts[:p.size-p.absent]...)
	if p.php {
		for _, h := range g.hosts {
			h.startPool()
		}
	}
	return g
}

func (g *team) write(path, content string, mode os.FileMode) {
	g.t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		g.t.Fatal(err)
	}
}

func (g *team) secret() string { return filepath.Join(g.dir, "secret") }

// end ends all hosts at once: nobody needs to take over.
func (g *team) end() {
	for _, h := range g.hosts {
		if h.pool != nil {
			h.pool.process.end()
			h.pool.front.Close()
		}
		if h.daemon != nil {
			h.daemon.kill()
		}
		h.findCrashes()
		if g.t.Failed() && h.daemon != nil {
			g.t.Logf("the end of host %d's log:\n%s", h.index, tail(h.log()))
		}
		if h.apart != nil {
			h.apart.kill()
		}
	}
	os.RemoveAll(g.dir)
}

// host is a daemon, and where it runs.
type host struct {
	team    *team
	index   int
	name    string
	dir     string
	address string
	apart   *process // keeps its network namespace; nil: it has none
	daemon  *process
	pool    *pool
	extra   string // settings in the place of the team's: strangers have others

	mu      sync.Mutex
	counted map[string]float64 // the sums of metrics of daemons that have ended, as last seen; guarded by mu
}

func (h *host) String() string  { return fmt.Sprintf("host %d", h.index) }
func (h *host) socket() string  { return filepath.Join(h.dir, "s") }
func (h *host) admin() string   { return filepath.Join(h.dir, "admin") }
func (h *host) data() string    { return filepath.Join(h.dir, "data") }
func (h *host) log() string     { return filepath.Join(h.dir, "log") }
func (h *host) gossip() string  { return h.address + ":7946" }
func (h *host) peering() string { return h.address + ":7947" }

// settings returns the file of settings.
func (h *host) settings() string {
	var b strings.Builder
	set := func(key string, value any) { // as TOML has numbers, strings and lists of strings
		text := fmt.Sprint(value)
		if _, is := value.(int); !is {
			text = strings.ReplaceAll(fmt.Sprintf("%q", value), `" "`, `", "`)
		}
		fmt.Fprintf(&b, "%s = %s\n", key, text)
	}
	set("socket", h.socket())
	set("socket_mode", "0666")
	set("admin", "unix:"+h.admin())
	if !h.team.plan.memory {
		set("data", h.data())
	}
	set("drain_timeout", "10s")
	if h.team.plan.alone {
		return b.String()
	}
	b.WriteString("[cluster]\n")
	set("name", h.name)
	set("sessions", "owner")
	set("expect", len(h.team.hosts))
	set("bind", h.gossip())
	set("advertise", h.gossip())
	set("peer_bind", h.peering())
	if f := h.team.plan.peerAdvertise; f != nil {
		set("peer_advertise", f(h))
	}
	var join []string
	for _, other := range h.team.hosts {
		join = append(join, other.gossip())
	}
	set("join", join)
	if h.extra != "" {
		return b.String() + h.extra
	}
	set("cluster_id", "town")
	set("secret_file", h.team.secret())
	b.WriteString(h.team.plan.settings)
	if f := h.team.plan.own; f != nil {
		b.WriteString(f(h))
	}
	return b.String()
}

// start starts the daemon and does not wait for it.
func (h *host) start() {
	t := h.team.t
	t.Helper()
	file := filepath.Join(h.dir, "coatcheck.toml")
	h.team.write(file, h.settings(), 0o600)
	command := h.inside(theStage.daemon, "serve", "--config", file)
	var err error
	if h.daemon, err = start(h.log(), command[0], command[1:]...); err != nil {
		t.Fatal(err)
	}
}

// mustRun fails the test when the daemon has ended by itself.
func (h *host) mustRun(t testing.TB) {
	t.Helper()
	select {
	case <-h.daemon.ended:
		t.Fatalf("%s ended: %s", h, tail(h.log()))
	default:
	}
}

// awaitReady waits until a daemon that is in no cluster serves.
func (h *host) awaitReady() {
	h.team.t.Helper()
	eventually(h.team.t, patience, "the daemon serves", func() (bool, string) {
		h.mustRun(h.team.t)
		_, err := h.ask("session.exists", pairs("id", "probe"))
		return err == nil, fmt.Sprint(err)
	})
}

// kill ends the daemon as kill -9 does.
func (h *host) kill() {
	h.count()
	h.daemon.kill()
	h.daemon = nil
}

// leave has the daemon leave the cluster and end, which must go well.
func (h *host) leave() {
	h.team.t.Helper()
	h.count()
	if code := h.daemon.end(); code != 0 {
		h.team.t.Errorf("%s left with exit code %d", h, code)
	}
	h.daemon = nil
}

func (h *host) stop()   { h.daemon.signal(syscall.SIGSTOP) }
func (h *host) resume() { h.daemon.signal(syscall.SIGCONT) }

// forget removes the data directory.
func (h *host) forget() {
	h.team.t.Helper()
	if err := os.RemoveAll(h.data()); err != nil {
		h.team.t.Fatal(err)
	}
}

func (h *host) findCrashes() {
	content, err := os.ReadFile(h.log())
	if err != nil {
		return // it was not started
	}
	for _, crash := range []string{"panic:", "fatal error:", "DATA RACE", "SIGSEGV"} {
		if i := strings.Index(string(content), crash); i >= 0 {
			h.team.t.Errorf("%s crashed: %s", h, content[i:min(i+4000, len(content))])
		}
	}
}

// dial connects to the daemon's socket.
func (h *host) dial(ctx context.Context) (*client.Client, error) {
	return client.Dial(ctx, h.socket(), "cluster-test")
}

// ask sends one request.
func (h *host) ask(method string, params wire.Pairs) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := h.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Call(ctx, method, params)
}

// pairs makes parameters of names and values in turn.
func pairs(list ...any) (p wire.Pairs) {
	for i := 0; i < len(list); i += 2 {
		p = append(p, wire.Pair{Key: list[i].(string), Value: list[i+1]})
	}
	return p
}

// metrics returns the daemon's counters and gauges by their names, labels included.
func (h *host) metrics() (map[string]float64, error) {
	pages := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", h.admin())
		},
	}}
	r, err := pages.Get("http://admin/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m := make(map[string]float64)
	for line := range strings.Lines(string(body)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.HasPrefix(name, "#") {
			m[name] = n
		}
	}
	return m, nil
}

// count remembers the daemon's counters, for it is about to end.
func (h *host) count() {
	m, err := h.metrics()
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, n := range m {
		h.counted[name] += n
	}
}

// degraded returns how many changes the daemon has acknowledged without a copy, as far as it can tell.
func (h *host) degraded() (n float64) {
	m, _ := h.metrics()
	return sum(m, "coatcheck_owner_degraded_total")
}

func sum(m map[string]float64, prefix string) (n float64) {
	for name, value := range m {
		if strings.HasPrefix(name, prefix) {
			n += value
		}
	}
	return n
}

// anomalies are the counters of what the documents allow in trouble.
var anomalies = []string{
	`coatcheck_owner_degraded_total{why="timeout"}`, `coatcheck_owner_degraded_total{why="no_copy"}`, `coatcheck_owner_degraded_total{why="no_runner_up"}`,
	"coatcheck_owner_unknown_total", "coatcheck_owner_shards_empty_total", "coatcheck_owner_shards_older_total", "coatcheck_owner_decided_alone_total",
	`coatcheck_owner_asked_total{outcome="unknown"}`, "coatcheck_owner_view_changes_total",
}

// counts returns how often each anomaly was counted by all daemons together.
func (g *team) counts() map[string]float64 {
	all := make(map[string]float64)
	for _, h := range g.hosts {
		h.mu.Lock()
		sums := maps.Clone(h.counted)
		h.mu.Unlock()
		if h.daemon != nil {
			now, _ := h.metrics()
			for name, n := range now {
				sums[name] += n
			}
		}
		for _, name := range anomalies {
			all[name] += sums[name]
		}
	}
	return all
}

// report logs the counts.
func (g *team) report() {
	g.t.Helper()
	all := g.counts()
	var said []string
	for _, name := range anomalies {
		short := strings.TrimSuffix(strings.TrimPrefix(name, "coatcheck_owner_"), "_total")
		said = append(said, fmt.Sprintf("%s %.0f", short, all[name]))
	}
	g.t.Logf("counted: %s", strings.Join(said, ", "))
}

// awaitOneView waits until hosts have accepted the same view, may decide by it, and serve all shards together.
func (g *team) awaitOneView(hosts ...*host) time.Duration {
	g.t.Helper()
	began := time.Now()
	eventually(g.t, patience, fmt.Sprintf("%d hosts have one view, and each its shards", len(hosts)), func() (bool, string) {
		var seen []string
		good, epoch, shards := true, -1.0, 0.0
		for _, h := range hosts {
			h.mustRun(g.t)
			m, err := h.metrics()
			if err != nil {
				return false, err.Error() + "\n" + tail(h.log())
			}
			e, ready, served := m["coatcheck_owner_view_epoch"], m["coatcheck_owner_members_ready"], m["coatcheck_owner_shards_served"]
			if epoch < 0 {
				epoch = e
			}
			shards += served
			good = good && e == epoch && e > 0 && m["coatcheck_owner_permitted"] == 1 && int(ready) == len(hosts) && served > 0
			seen = append(seen, fmt.Sprintf("%s: epoch %v, permitted %v, %v ready, %v shards", h, e, m["coatcheck_owner_permitted"], ready, served))
		}
		return good && shards == 256, strings.Join(seen, "; ")
	})
	return time.Since(began)
}

// ownerOf returns the host that decides a session, which is the one that asks nobody. Nothing else may go on meanwhile.
func (g *team) ownerOf(id string) *host {
	g.t.Helper()
	for _, h := range g.hosts {
		if h.daemon == nil {
			continue
		}
		before, err := h.metrics()
		if err != nil {
			g.t.Fatal(err)
		}
		if _, err := h.ask("session.exists", pairs("id", id)); err != nil {
			g.t.Fatal(err)
		}
		after, err := h.metrics()
		if err != nil {
			g.t.Fatal(err)
		}
		if sum(after, "coatcheck_owner_asked_total") == sum(before, "coatcheck_owner_asked_total") {
			return h
		}
	}
	g.t.Fatalf("no host owns %s", id)
	return nil
}

// but returns all hosts but some.
func (g *team) but(without ...*host) []*host {
	return slices.DeleteFunc(slices.Clone(g.hosts), func(h *host) bool { return slices.Contains(without, h) })
}
