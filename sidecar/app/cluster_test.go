package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/cluster"
	"github.com/coatcheck/coatcheck/sidecar/config"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// town is three hosts of one cluster, at 127.0.0.1, .2 and .3.
type town struct {
	t    *testing.T
	cfgs [3]config.Config
	apps [3]*App
}

// freePort returns a port of an address that is free for TCP and UDP.
func freePort(t *testing.T, host string) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		u, err := net.ListenPacket("udp", address)
		l.Close()
		if err == nil {
			u.Close()
			return address
		}
	}
	t.Fatalf("no port of %s is free", host)
	return ""
}

// newTown returns the settings of three hosts, with data directories or without.
func newTown(t *testing.T, data bool) *town {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(cluster.NewSecret()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &town{t: t}
	var join []string
	for i := range o.cfgs {
		host := fmt.Sprintf("127.0.0.%d", i+1)
		cfg := settings(t.TempDir())
		if data {
			cfg.Data = filepath.Join(filepath.Dir(cfg.Socket), "data")
		}
		gossip := freePort(t, host)
		join = append(join, gossip)
		cfg.Cluster.Sessions, cfg.Cluster.ClusterID, cfg.Cluster.Name = "owner", "town", fmt.Sprintf("host%d", i+1)
		cfg.Cluster.Bind = config.Addr{Network: "tcp", Address: gossip}
		cfg.Cluster.Advertise = cfg.Cluster.Bind
		cfg.Cluster.PeerBind = config.Addr{Network: "tcp", Address: freePort(t, host)}
		cfg.Cluster.Expect, cfg.Cluster.SecretFile = 3, secret
		o.cfgs[i] = cfg
	}
	for i := range o.cfgs {
		o.cfgs[i].Cluster.Join = join
	}
	return o
}

// startAll starts all hosts and waits until each serves its share.
func (o *town) startAll() {
	o.t.Helper()
	for i := range o.cfgs {
		o.start(i)
	}
	o.settled(3)
}

func (o *town) start(i int) {
	o.t.Helper()
	o.apps[i] = start(o.t, o.cfgs[i])
}

// settled waits until the running hosts agree that n of them own all shards, and serve them.
func (o *town) settled(n int) {
	o.t.Helper()
	until(o.t, fmt.Sprintf("%d hosts serve all shards", n), func() bool {
		serving := 0
		for _, a := range o.apps {
			if a == nil {
				continue
			}
			s, owners := a.hosts.seat.Status(), 0
			for _, m := range s.Members {
				if m.Shards > 0 {
					owners++
				}
			}
			if owners != n || a.ready() != nil {
				return false
			}
			serving += s.Serving
		}
		return serving == 256
	})
}

// stop stops a host as SIGTERM does.
func (o *town) stop(i int) {
	o.t.Helper()
	o.apps[i].Stop()
	o.apps[i] = nil
}

// everyHostSees fails the test unless each running host answers a value for each of its keys.
func (o *town) everyHostSees(keys int, value string) {
	o.t.Helper()
	for i, a := range o.apps {
		if a == nil {
			continue
		}
		c := dial(o.t, o.cfgs[i])
		for k := range keys {
			if got := ask(o.t, c, "kv.get", "key", fmt.Sprint("key", k)); fmt.Sprintf("%s", got) != value {
				o.t.Errorf("host %d: key%d is %v, want %s", i+1, k, got, value)
			}
		}
	}
}

// forms runs a test with hosts that have data directories and with hosts that have none.
func forms(t *testing.T, test func(t *testing.T, o *town)) {
	t.Parallel()
	for name, data := range map[string]bool{"memory": false, "data": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newTown(t, data))
		})
	}
}

// busy is a client that loops until it is told to stop.
type busy struct {
	done  chan struct{}
	stop  atomic.Bool
	turns atomic.Int64
	err   error // read after done
}

// loop has a client of a host set, get, and hold session locks, on keys of all owners.
func (o *town) loop(i int) *busy {
	b := &busy{done: make(chan struct{})}
	c := dial(o.t, o.cfgs[i])
	go func() {
		defer close(b.done)
		for n := 0; !b.stop.Load() && b.err == nil; n++ {
			b.err = o.turn(c, n)
			b.turns.Add(1)
		}
	}()
	return b
}

// turn is what a page does: it counts in a session, and looks at the cache.
func (o *town) turn(c *client.Client, n int) error {
	id, token := fmt.Sprint("visitor", n%20), fmt.Sprint("token", n)
	r, err := c.Call(o.t.Context(), "session.open", wire.Pairs{{Key: "id", Value: id}, {Key: "token", Value: token}, {Key: "wait_ms", Value: 30_000}})
	if err != nil {
		return fmt.Errorf("turn %d: open: %w", n, err)
	}
	opened := r.(map[string]any)
	if got, want := fmt.Sprintf("%s", opened["data"]), strings.Repeat("x", n/20); got != want {
		return fmt.Errorf("turn %d: %s had %d visits, has %d", n, id, len(want), len(got))
	}
	r, err = c.Call(o.t.Context(), "session.commit", wire.Pairs{
		{Key: "id", Value: id},
		{Key: "token", Value: token},
		{Key: "fence", Value: opened["fence"]},
		{Key: "data", Value: strings.Repeat("x", n/20+1)},
		{Key: "ttl_ms", Value: 600_000},
		{Key: "release", Value: true},
	})
	if err != nil {
		return fmt.Errorf("turn %d: commit: %w", n, err)
	}
	if stored := r.(map[string]any)["stored"]; stored != true {
		return fmt.Errorf("turn %d: commit: stored is %v", n, stored)
	}
	if _, err := c.Call(o.t.Context(), "kv.incr_by", wire.Pairs{{Key: "key", Value: fmt.Sprint("n", n%50)}}); err != nil {
		return fmt.Errorf("turn %d: incr_by: %w", n, err)
	}
	return nil
}

// goOn waits for more turns, and fails the test when there was an error.
func (b *busy) goOn(t *testing.T, turns int64) {
	t.Helper()
	want := b.turns.Load() + turns
	until(t, "the client goes on", func() bool {
		select {
		case <-b.done:
			t.Fatalf("the client met an error: %v", b.err)
		default:
		}
		return b.turns.Load() >= want
	})
}

// end stops the client.
func (b *busy) end(t *testing.T) {
	t.Helper()
	b.stop.Store(true)
	<-b.done
	if b.err != nil {
		t.Errorf("the client met an error: %v", b.err)
	}
}

func TestWhatOneHostSetsTheOthersGet(t *testing.T) {
	forms(t, func(t *testing.T, o *town) {
		o.startAll()
		c := dial(t, o.cfgs[0])
		for k := range 64 {
			ask(t, c, "kv.set", "key", fmt.Sprint("key", k), "value", "v")
		}
		ask(t, c, "session.commit", "id", "abc", "data", "kept", "ttl_ms", 60_000)
		o.everyHostSees(64, "v")
		ask(t, dial(t, o.cfgs[1]), "lock.acquire", "name", "l", "token", "t")
		_, err := dial(t, o.cfgs[2]).Call(t.Context(), "lock.acquire", wire.Pairs{{Key: "name", Value: "l"}, {Key: "token", Value: "u"}})
		if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != wire.Busy {
			t.Errorf("a lock that another host's client holds: %v", err)
		}
		if s := ask(t, dial(t, o.cfgs[2]), "session.open", "id", "abc").(map[string]any); fmt.Sprintf("%s", s["data"]) != "kept" {
			t.Errorf("the session at another host: %v", s)
		}
	})
}

// TestAStopIsNotNoticedElsewhere: a host hands over before it stops, and its lock's holder on another host keeps it.
func TestAStopIsNotNoticedElsewhere(t *testing.T) {
	forms(t, func(t *testing.T, o *town) {
		o.startAll()
		holder := dial(t, o.cfgs[1])
		held := ask(t, holder, "lock.acquire", "name", "l", "token", "t", "lease_ms", 600_000)
		b := o.loop(0)
		b.goOn(t, 50)
		o.stop(2)
		b.goOn(t, 50)
		o.settled(2)
		o.start(2)
		o.settled(3)
		b.goOn(t, 50)
		b.end(t)
		again := ask(t, holder, "lock.acquire", "name", "l", "token", "t", "lease_ms", 600_000)
		if fmt.Sprint(again) == "" || fmt.Sprint(again.(map[string]any)["fence"]) != fmt.Sprint(held.(map[string]any)["fence"]) {
			t.Errorf("the lock was %v, is %v", held, again)
		}
	})
}

// TestAHostThatHasLeftGoesOnServingItsClients by asking the owners, and joins again.
func TestAHostThatHasLeftGoesOnServingItsClients(t *testing.T) {
	forms(t, func(t *testing.T, o *town) {
		o.startAll()
		b := o.loop(2) // a client of the host that leaves
		b.goOn(t, 50)
		operator := dial(t, o.cfgs[2])
		ask(t, operator, "cluster.leave")
		o.settled(2)
		b.goOn(t, 50)
		if m := ask(t, operator, "cluster.members").(map[string]any); m["leaving"] != true || fmt.Sprint(m["serving"]) != "0" || len(m["members"].([]any)) != 3 {
			t.Errorf("after leaving: %v", m)
		}
		if code, body := page(t, o.cfgs[2], "/readyz"); code != 200 {
			t.Errorf("a host that asks others for its clients: %d %s", code, body)
		}
		ask(t, operator, "cluster.leave") // it has left
		ask(t, operator, "cluster.join", "address", o.cfgs[0].Cluster.Bind.Address)
		o.settled(3)
		b.goOn(t, 50)
		b.end(t)
	})
}

func TestAHostWithoutAMajorityIsNotReady(t *testing.T) {
	t.Parallel()
	o := newTown(t, true)
	for i := range o.cfgs {
		o.cfgs[i].DrainTimeout = 100 * time.Millisecond // nobody takes over
	}
	o.start(0)
	until(t, "it says why it is not ready", func() bool {
		code, body := page(t, o.cfgs[0], "/readyz")
		return code == 503 && strings.Contains(body, "fewer than a majority")
	})
	_, err := dial(t, o.cfgs[0]).Call(t.Context(), "kv.get", wire.Pairs{{Key: "key", Value: "k"}})
	if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != wire.Unavailable {
		t.Errorf("a get without a majority: %v", err)
	}
	o.start(1)
	o.settled(2)
	id := o.apps[1].hosts.cluster.Self().ID
	c := dial(t, o.cfgs[0])
	refuses(t, c, "alive", "cluster.forget", "id", id)
	refuses(t, c, "unknown_member", "cluster.forget", "id", "0123456789abcdef")
	o.apps[1].hosts.seat.Stop() // as a crash: nobody hears it any more
	o.apps[1].hosts.cluster.Close()
	until(t, "it misses the other one", func() bool {
		code, body := page(t, o.cfgs[0], "/readyz")
		return code == 503 && strings.Contains(body, "hears no majority")
	})
	refuses(t, c, "no_majority", "cluster.forget", "id", id)
	refuses(t, c, "no_other", "cluster.leave")
	o.stop(0) // its successor remembers a view, and is not ready by that
	o.start(0)
	if code, body := page(t, o.cfgs[0], "/readyz"); code != 503 {
		t.Errorf("a restarted host without a majority: %d %s", code, body)
	}
	until(t, "a member that is dead is forgotten by force", func() bool {
		_, err := dial(t, o.cfgs[0]).Call(t.Context(), "cluster.forget", wire.Pairs{{Key: "id", Value: id}, {Key: "force", Value: true}})
		return err == nil
	})
	if n := len(o.apps[0].hosts.cluster.Members()); n != 1 {
		t.Errorf("%d members after the other one was forgotten", n)
	}
}

// setUp is the block of settings in docs/cluster.md.
var setUp = regexp.MustCompile(`(?m)^    \[cluster\]\n(?:    .+\n)+`)

// TestTheSetUpOfTheManualWorks: three hosts, word for word but for the addresses and the path of the secret.
func TestTheSetUpOfTheManualWorks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	block := setUp.FindString(string(page))
	if lines := strings.Count(block, "\n"); lines == 0 || lines > 10 {
		t.Fatalf("the settings in docs/cluster.md have %d lines, and promise no more than ten", lines)
	}
	o := newTown(t, true)
	own := o.cfgs // where they may be
	for i := range o.cfgs {
		text := block
		for n, cfg := range own {
			from := fmt.Sprintf("10.0.0.%d", n+1)
			if n == 0 { // each host has its own in that place, in all lines but join
				host, join, _ := strings.Cut(text, "join =")
				host = strings.ReplaceAll(host, from+":7946", own[i].Cluster.Bind.Address)
				text = strings.ReplaceAll(host, from+":7947", own[i].Cluster.PeerBind.Address) + "join =" + join
			}
			text = strings.ReplaceAll(text, from+":7946", cfg.Cluster.Bind.Address)
		}
		text = strings.ReplaceAll(text, "/etc/coatcheck/cluster.secret", own[i].Cluster.SecretFile)
		file := filepath.Join(filepath.Dir(own[i].Socket), "coatcheck.toml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, warnings, err := config.Load(file, nil, map[string]string{"socket": own[i].Socket, "data": own[i].Data})
		if err != nil || len(warnings) > 0 {
			t.Fatalf("%v %v\n%s", err, warnings, text)
		}
		o.cfgs[i] = cfg
	}
	o.startAll()
	ask(t, dial(t, o.cfgs[0]), "kv.set", "key", "key0", "value", "v")
	o.everyHostSees(1, "v")
}

// refuses fails the test unless a method is refused for a reason.
func refuses(t *testing.T, c *client.Client, reason, method string, params ...any) {
	t.Helper()
	var pairs wire.Pairs
	for i := 0; i < len(params); i += 2 {
		pairs = append(pairs, wire.Pair{Key: params[i].(string), Value: params[i+1]})
	}
	_, err := c.Call(t.Context(), method, pairs)
	e, ok := errors.AsType[*wire.Error](err)
	if !ok || e.Code != wire.Refused || len(e.Details) == 0 || e.Details[0].Value != reason {
		t.Errorf("%s %v: %v, want refused, %s", method, params, err, reason)
	}
}

func TestWhatIsToldOfTheCluster(t *testing.T) {
	t.Parallel()
	o := newTown(t, false)
	o.startAll()
	code, body := page(t, o.cfgs[0], "/v1/members")
	var m struct {
		Cluster, Node  string
		Epoch, Serving int
		Permitted      bool
		Members        []struct {
			ID, Name, Address    string
			Alive, Ready, InView bool `json:",omitempty"`
			Shards               int
			HeardMS              *int `json:"heard_ms"`
		}
	}
	if err := json.Unmarshal([]byte(body), &m); code != 200 || err != nil {
		t.Fatalf("/v1/members: %d %v %s", code, err, body)
	}
	shards := 0
	for _, h := range m.Members {
		shards += h.Shards
		if !h.Alive || !h.Ready || h.HeardMS == nil || h.Shards == 0 || !strings.HasPrefix(h.Name, "host") || h.Address == "" {
			t.Errorf("a member: %+v", h)
		}
	}
	if m.Cluster != "town" || !m.Permitted || m.Epoch == 0 || m.Serving == 0 || len(m.Members) != 3 || shards != 256 {
		t.Errorf("/v1/members: %s", body)
	}
	_, body = page(t, o.cfgs[0], "/v1/status")
	for _, says := range []string{`"counted":"on this host, copies included"`, `"cluster":{"id":"town"`, `"members":3,"alive":3,"ready":3`} {
		if !strings.Contains(body, says) {
			t.Errorf("/v1/status does not say %s: %s", says, body)
		}
	}
}

func TestAHostHandsOverBeforeItStopsServing(t *testing.T) {
	t.Parallel()
	o := newTown(t, true)
	o.cfgs[0].RESP = config.Addr{Network: "unix", Address: filepath.Join(filepath.Dir(o.cfgs[0].Socket), "resp")}
	o.start(0)
	var order []string
	for _, u := range slices.Backward(o.apps[0].undos) {
		order = append(order, u.name)
	}
	for _, c := range []struct{ first, then, why string }{
		{"seat", "drain", "clients are served while the others take over"},
		{"seat", "resp", "those of the Redis protocol too"},
		{"drain", "cluster", "who commits while draining asks the owners"},
		{"socket", "cluster", "the same"},
		{"cluster", "journal", "copies that come in are kept"},
	} {
		i, j := slices.Index(order, c.first), slices.Index(order, c.then)
		if i < 0 || j < 0 || i > j {
			t.Errorf("parts stop in the order %v; %s must stop before %s: %s", order, c.first, c.then, c.why)
		}
	}
}

// warned is a warning of the package owner, which keeps them seldom in a way of its own.
var warned = regexp.MustCompile(`says\.warn\([^,]+, "([^"]+)"`)

func TestTheManualExplainsTheWarningsOfOwners(t *testing.T) {
	manual, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../owner/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range warned.FindAllSubmatch(source, -1) {
			if found++; !strings.Contains(string(manual), "`"+string(m[1])+"`") {
				t.Errorf("docs/operations.md does not explain %q of %s", m[1], file)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d warnings were found", found)
	}
}

// reported is a metric of ours on the page.
var reported = regexp.MustCompile(`(?m)^# HELP (coatcheck_(?:owner|cluster)_[a-z_]+) `)

func TestTheManualExplainsTheMetricsOfACluster(t *testing.T) {
	manual, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	o := newTown(t, true)
	o.startAll()
	_, body := page(t, o.cfgs[0], "/metrics")
	found := reported.FindAllStringSubmatch(body, -1)
	if len(found) < 15 {
		t.Errorf("%d metrics of the cluster are reported: %v", len(found), found)
	}
	for _, m := range found {
		if !strings.Contains(string(manual), "`"+m[1]+"`") {
			t.Errorf("docs/operations.md does not explain %s", m[1])
		}
	}
	promises, err := os.ReadFile("../../docs/consistency.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range named.FindAllStringSubmatch(string(manual)+string(promises), -1) {
		if !strings.Contains(body, "# HELP "+m[1]+" ") {
			t.Errorf("the documents name %s, which is not reported", m[1])
		}
	}
}

// named is a metric of ours in a document, with labels or without.
var named = regexp.MustCompile("`(coatcheck_(?:owner|cluster)_[a-z_]*[a-z])[`{]")

func TestSecretsAreReadAgain(t *testing.T) {
	t.Parallel()
	o := newTown(t, true)
	o.startAll()
	file := o.cfgs[0].Cluster.SecretFile // of all three
	b := o.loop(0)
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	next := cluster.NewSecret() + "\n"
	for _, text := range []string{string(old) + next, next + string(old), next} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for i := range o.cfgs {
			secrets := ask(t, dial(t, o.cfgs[i]), "cluster.reload").(map[string]any)["secrets"].([]any)
			if want := strings.Count(text, "\n"); len(secrets) != want {
				t.Errorf("%d secrets are in use, want %d", len(secrets), want)
			}
		}
	}
	if err := os.WriteFile(file, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, dial(t, o.cfgs[0]), "settings", "cluster.reload")
	o.apps[0].Reload() // as by SIGHUP: it is logged
	b.stop.Store(true)
	<-b.done
	if e, ok := errors.AsType[*wire.Error](b.err); b.err != nil && (!ok || e.Code != wire.Unreachable) {
		t.Errorf("a client met %v: what is asked while connections are made anew may be unknown, and no more", b.err)
	}
	o.settled(3)
}

// TestAStartDoesNotWaitForTheOthers, who may be started after it.
func TestAStartDoesNotWaitForTheOthers(t *testing.T) {
	o := newTown(t, true)
	began := time.Now()
	o.start(0)
	if took := time.Since(began); took > limit/2 {
		t.Errorf("the start took %v", took)
	}
	ask(t, dial(t, o.cfgs[0]), "server.ping")
	o.stop(0)
	gone(t, o.cfgs[0].Socket)
}
