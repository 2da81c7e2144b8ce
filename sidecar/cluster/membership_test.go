package cluster

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// sees waits until a host has another as a member in a state.
func sees(t *testing.T, c *Cluster, id string, what string, want func(m Member, ok bool) bool) {
	t.Helper()
	until(t, c.Self().Name+" sees that "+id+" "+what, func() bool { return want(memberOf(c, id)) }, func() string {
		m, ok := memberOf(c, id)
		return strings.TrimSpace(m.Name+" "+m.Boot) + map[bool]string{true: " is a member", false: " is no member"}[ok]
	})
}

func alive(m Member, ok bool) bool    { return ok && m.Alive }
func dead(m Member, ok bool) bool     { return ok && !m.Alive }
func gonePast(_ Member, ok bool) bool { return !ok }

// fixed gives a configuration the ports that a host has now, so that it comes back where it was.
func fixed(cfg Config, c *Cluster) Config {
	cfg.Bind, cfg.Advertise, cfg.PeerBind = c.set.self.gossip, c.set.self.gossip, c.Self().Addr
	return cfg
}

func TestADeadHostStaysAMemberAndIsFoundAgain(t *testing.T) {
	dir := t.TempDir()
	var back Config
	all := gather(t, 3, hasty, func(c *Config) {
		if c.Name == "web3" {
			c.Dir = dir
			back = *c
		}
	})
	changed := make(chan struct{}, 1)
	all[0].OnChange(func() { signal(changed) })
	before := all[2].Self()
	back = fixed(back, all[2])
	back.Join = nil // it remembers the others
	all[2].Close()
	sees(t, all[0], before.ID, "died", dead)
	<-changed
	again := begin(t, back)
	meshed(t, all[0], all[1], again)
	sees(t, all[0], before.ID, "is alive", alive)
	if after := again.Self(); after.ID != before.ID || after.Boot == before.Boot {
		t.Errorf("node %s with boot id %s came back as %s, %s", before.ID, before.Boot, after.ID, after.Boot)
	}
	if n := len(all[1].Members()); n != 3 {
		t.Errorf("there are %d members", n)
	}
}

func TestAQuickRestartIsNoticed(t *testing.T) {
	dir := t.TempDir()
	var back Config
	all := gather(t, 2, func(c *Config) {
		if c.Name == "web2" {
			c.Dir = dir
			back = *c
		}
	})
	back = fixed(back, all[1])
	all[1].Close()
	meshed(t, all[0], begin(t, back)) // compares boot ids
}

func TestMembersThatAreAwayAreTried(t *testing.T) {
	dir := t.TempDir()
	var back Config
	all := gather(t, 2, hasty, func(c *Config) {
		if c.Name == "web2" {
			back = *c
			back.Dir, c.Dir = dir, dir
		}
	})
	back = fixed(back, all[1])
	back.Join = nil
	all[1].Close()
	sees(t, all[0], all[1].Self().ID, "died", dead)
	if err := os.Remove(filepath.Join(dir, membersFile)); err != nil {
		t.Fatal(err)
	}
	meshed(t, all[0], begin(t, back)) // it knows nobody: the other one must find it
}

func TestANewHostLearnsOfThoseThatAreAway(t *testing.T) {
	all := gather(t, 2, hasty)
	away := all[1].Self()
	all[1].Close()
	sees(t, all[0], away.ID, "died", dead)
	cfg, _ := testConfig(3)
	cfg.Join = []string{all[0].set.self.gossip}
	late := begin(t, cfg)
	meshed(t, all[0], late)
	sees(t, late, away.ID, "is a member that is away", dead)
}

func TestLeaveTakesAHostOutEverywhere(t *testing.T) {
	dir := t.TempDir()
	var back Config
	all := gather(t, 3, func(c *Config) {
		if c.Name == "web3" {
			c.Dir = dir
			back = *c
		}
	})
	id := all[2].Self().ID
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := all[2].Leave(ctx); err != nil {
		t.Error(err)
	}
	for _, c := range all[:2] {
		if m, ok := memberOf(c, id); ok {
			t.Errorf("after the leave %s has %+v", c.Self().Name, m)
		}
	}
	back = fixed(back, all[2])
	all[2].Close()
	if err := all[2].Leave(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("a leave after the end: %v", err)
	}
	meshed(t, all[0], all[1], begin(t, back))
}

func TestWhoWasAwayBringsNobodyBackWhoLeft(t *testing.T) {
	dirs := map[string]string{"web3": t.TempDir(), "web4": t.TempDir()}
	cfgs := make(map[string]Config)
	all := gather(t, 4, hasty, func(c *Config) {
		c.Dir = dirs[c.Name]
		cfgs[c.Name] = *c
	})
	away, left := fixed(cfgs["web3"], all[2]), fixed(cfgs["web4"], all[3])
	id := all[3].Self().ID
	all[2].Close() // it knows web4's first run, and will not hear of the second
	all[3].Close()
	second := begin(t, left)
	meshed(t, all[0], all[1], second)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_ = second.Leave(ctx) // its error names web3, which is away
	second.Close()
	for _, c := range all[:2] {
		sees(t, c, id, "left", gonePast)
	}
	kept, err := disk{away.Dir}.loadMembers(away.ID)
	if err != nil || !slices.ContainsFunc(kept.Members, func(m rosterMember) bool { return m.ID == id }) {
		t.Fatalf("the host that was away does not know who left, and so can bring nobody back: %+v, %v", kept, err)
	}
	back := begin(t, away)
	meshed(t, all[0], all[1], back)
	sees(t, back, id, "left", gonePast)
	for _, c := range all[:2] {
		if m, ok := memberOf(c, id); ok {
			t.Errorf("%s has %+v again", c.Self().Name, m)
		}
	}
}

func TestForgetIsToldToAll(t *testing.T) {
	all := gather(t, 3, hasty)
	id := all[2].Self().ID
	sees(t, all[0], id, "is alive", alive)
	if err := all[0].Forget(id); !errors.Is(err, ErrAlive) {
		t.Errorf("one that is alive: %v", err)
	}
	all[2].Close()
	for _, c := range all[:2] {
		sees(t, c, id, "died", dead)
	}
	if err := all[0].Forget(id); err != nil {
		t.Fatal(err)
	}
	for _, c := range all[:2] {
		sees(t, c, id, "is forgotten", gonePast)
	}
	if err := all[1].Forget(id); !errors.Is(err, ErrUnknown) {
		t.Errorf("one that is forgotten: %v", err)
	}
}

func TestACopiedDataDirectoryIsKeptOut(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	all := gather(t, 2, func(c *Config) {
		if c.Name == "web2" {
			c.Dir = dir
		}
	})
	b, err := os.ReadFile(filepath.Join(dir, nodeFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copied, nodeFile), b, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, book := testConfig(3)
	cfg.Dir, cfg.Join = copied, []string{all[0].set.self.gossip}
	second := begin(t, cfg)
	until(t, "the second host says what is wrong", func() bool {
		return book.has("kept out", "was the data directory copied?", nodeFile)
	}, book.String)
	if n := len(second.Members()); n != 1 {
		t.Errorf("the second host has %d members", n)
	}
	meshed(t, all...) // the first one still is
}

func TestAHostWithoutADirectoryLeavesNoGhost(t *testing.T) {
	var back Config
	all := gather(t, 2, hasty, func(c *Config) { back = *c })
	before := all[1].Self().ID
	back = fixed(back, all[1])
	all[1].Close()
	again := begin(t, back)
	meshed(t, all[0], again)
	for _, c := range []*Cluster{all[0], again} {
		sees(t, c, before, "is forgotten", gonePast)
	}
}

func TestSeedsByName(t *testing.T) {
	all := gather(t, 1)
	_, port, err := net.SplitHostPort(all[0].set.self.gossip)
	if err != nil {
		t.Fatal(err)
	}
	cfg, book := testConfig(2)
	cfg.Join = []string{"no-such-host.invalid:1", net.JoinHostPort("localhost", port)}
	meshed(t, all[0], begin(t, cfg))
	if !book.has("cannot be looked up", "no-such-host.invalid:1") {
		t.Errorf("the log does not name the seed that has no address:\n%s", book)
	}
}

func TestAFailedStartLeavesNothingBehind(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	cfg, _ := testConfig(1)
	cfg.Bind, cfg.PeerBind = taken.Addr().String(), addr
	if c, err := Start(cfg); err == nil || !strings.Contains(err.Error(), cfg.Bind) {
		t.Fatalf("got %v, %v", c, err)
	}
	again, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("the port for peers is still taken: %v", err)
	}
	again.Close()
}

func TestConfigurationsThatCannotWork(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"a secret is needed":     func(c *Config) { c.Secrets = nil },
		"too short":              func(c *Config) { c.Secrets = []string{"fifteen letters"} },
		"cluster id":             func(c *Config) { c.ID = "" },
		"node's name":            func(c *Config) { c.Name = "a b" },
		"never guessed":          func(c *Config) { c.Advertise = "" },
		"cannot reach that":      func(c *Config) { c.Advertise = "0.0.0.0:7946" },
		"must be ip:port":        func(c *Config) { c.Bind = "localhost:1" },
		"peer bind":              func(c *Config) { c.PeerBind = "" },
		"must be host:port":      func(c *Config) { c.Join = []string{"web1"} },
		"give all three files":   func(c *Config) { c.TLSCert = "x" },
		"the largest frame":      func(c *Config) { c.MaxFrame = 1 },
		"cannot be negative":     func(c *Config) { c.Silence = -time.Second },
		"secret file":            func(c *Config) { c.SecretFile = "/no/such/file" },
		"no such file":           func(c *Config) { c.Dir = "/no/such/directory" },
		"key of the certificate": func(c *Config) { c.TLSCert, c.TLSKey, c.TLSCA = "/no/cert", "/no/key", "/no/ca" },
	} {
		cfg, _ := testConfig(1)
		change(&cfg)
		c, err := Start(cfg)
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
	}
}
