package owner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// The simulation: sessions are opened, committed and released from all hosts while hosts are killed, stopped, cut off and
// started again. It is checked that a lock has one holder, that fences grow, and that what was acknowledged with a copy is kept.

// simLease is short beside the cuts and stops: leases run out.
const simLease = 10 * time.Second

// skewed is how far clocks of hosts may be apart, at most.
const skewed = 200 * time.Millisecond

// act is a command that was answered with success.
type act struct {
	began, ended time.Time
	fence        uint64
	seq          int
	weak         bool // acknowledged without a copy
	told         bool // that it was lost
}

// register is one session as those who use it saw it. One after the other appends to it.
type register struct {
	key     string
	mu      sync.Mutex
	granted []*tenure
	commits []act
}

// tenure is a grant, from its answer to the moment from which another may be granted the lock.
type tenure struct {
	act
	until time.Time // when the release was sent, or the lease can be over
	open  bool
}

// simulation is one run.
type simulation struct {
	w      *world
	keys   []*register
	stop   chan struct{}
	single bool // one thing is wrong at a time
	narrow bool // see simulated
	disk   bool

	mu     sync.Mutex
	count  map[string]int
	faults []string
	epochs [store.Shards]uint64 // in which was decided last
	copied [store.Shards]uint64 // in which a change was acknowledged with a copy last
}

func (s *simulation) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// brought is told from which copy a shard goes on. When it is an older one, what was known of its sessions holds no more.
func (s *simulation) brought(shard int, epoch uint64) {
	s.mu.Lock()
	older := epoch < s.copied[shard]
	keys := s.keys
	s.mu.Unlock()
	if !older {
		return
	}
	if s.single {
		s.fault("shard %d goes on from a copy of epoch %d although but one thing was wrong at a time", shard, epoch)
	}
	s.did("shards from an older copy")
	for _, g := range keys {
		if store.ShardOfKey([]byte(g.key)) == shard {
			g.mu.Lock()
			for _, t := range g.granted {
				t.weak = true
			}
			for i := range g.commits {
				g.commits[i].weak = true
			}
			g.mu.Unlock()
		}
	}
}

// acked notes that a change was acknowledged.
func (s *simulation) acked(ctx context.Context, shard int, epoch uint64) {
	if weak, _ := ctx.Value(weakKey{}).(*bool); weak == nil || *weak {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copied[shard] = max(s.copied[shard], epoch)
}

// applied checks that when a host decided by a view, nobody decides by an older one.
func (s *simulation) applied(shard int, epoch uint64) {
	s.mu.Lock()
	last := s.epochs[shard]
	s.epochs[shard] = max(last, epoch)
	s.mu.Unlock()
	if epoch < last {
		s.fault("shard %d was decided on in epoch %d at %v, after epoch %d", shard, epoch, time.Now(), last)
	}
}

func (s *simulation) did(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[what]++
}

type weakKey struct{}

// do has a command decided somewhere and returns what came of it.
func (s *simulation) do(at *host, c store.Command) (store.Result, act, error) {
	weak := false
	a := act{began: time.Now()}
	r, err := s.w.do(context.WithValue(context.Background(), weakKey{}, &weak), at, c)
	a.ended, a.fence, a.weak = time.Now(), r.Fence, weak
	switch {
	case err == nil:
		s.did("decided")
	case errors.Is(err, arbiter.ErrNotDecided):
		s.did("not decided")
	default:
		s.did("unknown")
	}
	if weak {
		s.did("degraded")
	}
	return r, a, err
}

// client opens, commits and releases sessions until the run is over.
func (s *simulation) client(number int, rnd *rand.Rand) {
	for turn := 0; ; turn++ {
		select {
		case <-s.stop:
			return
		default:
		}
		reg := s.keys[rnd.IntN(len(s.keys))]
		at := s.w.hosts[rnd.IntN(len(s.w.hosts))]
		s.session(reg, at, fmt.Sprintf("%d-%d", number, turn), rnd)
		time.Sleep(time.Duration(rnd.Int64N(int64(150 * time.Millisecond))))
	}
}

func (s *simulation) session(reg *register, at *host, token string, rnd *rand.Rand) {
	open := store.Command{Op: store.OpSessionOpen, Space: space, Key: []byte(reg.key), Token: []byte(token), Lease: simLease.Milliseconds()}
	r, a, err := s.do(at, open)
	if err != nil && !errors.Is(err, arbiter.ErrNotDecided) && rnd.IntN(2) == 0 {
		r, a, err = s.do(at, open) // the same token may be tried again
	}
	if err != nil || !r.Locked {
		return
	}
	s.did("granted")
	a.seq, _ = strconv.Atoi(string(r.Value))
	t := reg.grant(s, a)
	time.Sleep(time.Duration(rnd.Int64N(int64(200 * time.Millisecond))))
	if rnd.IntN(40) == 0 {
		time.Sleep(2 * simLease) // it hangs, and comes back when its lease is over
	}
	if rnd.IntN(20) == 0 {
		s.did("abandoned")
		return // the client died
	}
	commit := store.Command{
		Op: store.OpSessionCommit, Space: space, Key: []byte(reg.key), Token: []byte(token), Fence: r.Fence,
		Value: []byte(strconv.Itoa(a.seq + 1)), TTL: time.Hour.Milliseconds(), Release: rnd.IntN(4) > 0,
	}
	if commit.Release {
		reg.end(t)
	}
	r, c, err := s.do(at, commit)
	if err == nil && r.Done {
		s.did("committed")
		c.seq = a.seq + 1
		reg.commit(s, c)
	}
	if !commit.Release {
		reg.end(t)
		s.do(at, store.Command{Op: store.OpSessionRelease, Space: space, Key: []byte(reg.key), Token: []byte(token)})
	}
}

// grant checks a grant against all before it.
func (g *register) grant(s *simulation, a act) *tenure {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range g.granted {
		until := o.until
		if o.open {
			until = o.ended.Add(100 * time.Hour)
		}
		if lease := o.began.Add(simLease - skewed); lease.Before(until) {
			until = lease // as a careful holder counts it
		}
		switch {
		case o.ended.Before(a.began) && until.After(a.ended):
			if o.weak {
				s.did("two holders, the first without a copy")
			} else {
				s.fault("%s: granted %v to %v (fence %d) while held since %v (fence %d) until %v", g.key, a.began, a.ended, a.fence, o.ended, o.fence, until)
			}
		case o.ended.Before(a.began) && o.fence >= a.fence:
			s.fault("%s: fence %d of %v is not above %d of %v", g.key, a.fence, a.began, o.fence, o.ended)
		case o.fence == a.fence:
			s.fault("%s: fence %d was given twice", g.key, a.fence)
		}
	}
	lost := 0
	for i := range g.commits {
		c := &g.commits[i]
		if c.ended.Before(a.began) && !c.weak {
			lost = max(lost, c.seq)
		}
		if c.ended.Before(a.began) && c.weak && c.seq > a.seq && !c.told {
			c.told = true
			s.did("lost, acknowledged without a copy")
		}
	}
	if a.seq < lost {
		s.fault("%s: opened %v to %v with %d, after %d was acknowledged", g.key, a.began, a.ended, a.seq, lost)
	}
	t := &tenure{act: a, open: true}
	g.granted = append(g.granted, t)
	return t
}

// end says that the holder may have ended its tenure from now on.
func (g *register) end(t *tenure) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.open, t.until = false, time.Now()
}

// commit checks that no two commits build on the same one, as far as both are there.
func (g *register) commit(s *simulation, a act) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range g.commits {
		if o.seq == a.seq && !o.weak {
			s.fault("%s: %d was committed twice: %v and %v", g.key, a.seq, o.ended, a.ended)
		}
	}
	g.commits = append(g.commits, a)
}

// nemesis does something to a host or to the network, and undoes it after a while.
func (s *simulation) nemesis(rnd *rand.Rand) {
	w := s.w
	some := func() *host { return w.hosts[rnd.IntN(len(w.hosts))] }
	mine := func() *host { // to be killed and started by this one alone
		h := some()
		w.mu.Lock()
		defer w.mu.Unlock()
		for range w.hosts {
			if !h.busy {
				h.busy = true
				return h
			}
			h = w.hosts[(slices.Index(w.hosts, h)+1)%len(w.hosts)]
		}
		return nil
	}
	release := func(h *host) {
		w.mu.Lock()
		defer w.mu.Unlock()
		h.busy = false
	}
	short := func(least, most time.Duration) {
		time.Sleep(least + time.Duration(rnd.Int64N(int64(most-least))))
	}
	link := func(a, b string, cut bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.cut[[2]string{a, b}] = cut
	}
	name := ""
	event := rnd.IntN(9)
	if s.disk && len(w.hosts) == 3 {
		event = rnd.IntN(10)
	}
	if s.narrow {
		event = 5
	}
	switch event {
	case 0:
		h := mine()
		if h == nil {
			return
		}
		defer release(h)
		w.log("%s is to be killed or stopped", h.id)
		name = "kill"
		h.kill()
		short(0, 15*time.Second)
		h.start()
	case 1:
		h := mine()
		if h == nil {
			return
		}
		defer release(h)
		w.log("%s is to be killed or stopped", h.id)
		name = "quick restart"
		h.kill()
		short(0, 500*time.Millisecond)
		h.start()
	case 2:
		h := mine()
		if h == nil {
			return
		}
		defer release(h)
		w.log("%s is to be killed or stopped", h.id)
		name = "stop"
		h.halt()
		short(500*time.Millisecond, 12*time.Second)
		h.goOn()
	case 3, 4:
		h := some()
		in, out := true, true
		name = "cut off"
		if rnd.IntN(2) == 0 {
			in, out, name = rnd.IntN(2) == 0, false, "cut off, one way"
			out = !in
		}
		w.log("%s is cut off, to it %v, from it %v", h.id, in, out)
		for _, o := range w.hosts {
			link(o.id, h.id, in)
			link(h.id, o.id, out)
		}
		short(time.Second, 15*time.Second)
		for _, o := range w.hosts {
			link(o.id, h.id, false)
			link(h.id, o.id, false)
		}
	case 5:
		a, b := some(), some()
		if s.narrow {
			a, b = w.hosts[0], w.hosts[1]
			w.mu.Lock()
			w.delay = 400 * time.Millisecond // else the third tells them at once
			w.mu.Unlock()
		}
		w.log("%s and %s are cut", a.id, b.id)
		name = "a link cut"
		link(a.id, b.id, true)
		if rnd.IntN(2) == 0 {
			link(b.id, a.id, true)
		}
		short(time.Second, 15*time.Second)
		link(a.id, b.id, false)
		link(b.id, a.id, false)
	case 6:
		name = "slow and lossy"
		w.mu.Lock()
		w.delay, w.loss = time.Duration(rnd.Int64N(int64(300*time.Millisecond))), rnd.Float64()*0.2
		w.mu.Unlock()
		short(time.Second, 10*time.Second)
		w.mu.Lock()
		w.delay, w.loss = time.Millisecond, 0
		w.mu.Unlock()
	case 7:
		h := mine()
		if h == nil {
			return
		}
		defer release(h)
		w.log("%s is to be killed or stopped", h.id)
		name = "leave and come back"
		h.leave()
		h.kill()
		short(0, 5*time.Second)
		h.start()
	case 9:
		name = "all restart"
		w.mu.Lock()
		busy := slices.ContainsFunc(w.hosts, func(h *host) bool { return h.busy })
		for _, h := range w.hosts {
			h.busy = h.busy || !busy
		}
		w.mu.Unlock()
		if busy {
			return
		}
		for _, h := range w.hosts {
			h.kill()
		}
		for _, h := range w.hosts {
			h.start()
			short(0, 3*time.Second)
		}
		for _, h := range w.hosts {
			release(h)
		}
	case 8:
		name = "pauses"
		w.mu.Lock()
		w.pauses = 0.02
		w.mu.Unlock()
		short(time.Second, 15*time.Second)
		w.mu.Lock()
		w.pauses = 0
		w.mu.Unlock()
	}
	w.count(name)
	w.log("%s is over", name)
}

// leave has the host leave, for a while at most.
func (h *host) leave() {
	s := h.running()
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if s.Leave(ctx) == nil {
		h.w.count("left")
	}
}

// simulated is what a run is.
type simulated struct {
	hosts   int
	seed    uint64
	length  time.Duration
	overlap bool // more than one thing happens at a time
	memory  bool // nothing is on disk
	faults  faults
	narrow  bool // but the link between coordinator and an owner is cut, and all keys are that owner's
}

// simulate runs a simulation and returns it.
func simulate(t *testing.T, how simulated) (s *simulation) {
	synctest.Test(t, func(t *testing.T) {
		s = &simulation{single: !how.overlap, narrow: how.narrow, disk: !how.memory, stop: make(chan struct{}), count: make(map[string]int)}
		rnd := rand.New(rand.NewPCG(how.seed, 2))
		s.w = newWorld(t, how.hosts, how.seed, func(cfg *Config) {
			between := cfg.faults.between
			cfg.faults = how.faults
			cfg.faults.between = between
			cfg.faults.applied, cfg.faults.brought = s.applied, s.brought
			cfg.faults.degraded = func(ctx context.Context) {
				if weak, _ := ctx.Value(weakKey{}).(*bool); weak != nil {
					*weak = true
				}
			}
		})
		s.w.acked = s.acked
		for _, h := range s.w.hosts {
			h.skew = rnd.Int64N(skewed.Milliseconds())
			if how.memory {
				h.journal = nil
			}
			h.start()
		}
		defer s.w.end()
		if !s.w.settle(30 * time.Second) {
			return
		}
		s.mu.Lock()
		v := s.w.hosts[0].seat.view()
		for i := 0; len(s.keys) < 12; i++ {
			g := &register{key: fmt.Sprintf("session %d", i)}
			shard := store.ShardOfKey([]byte(g.key))
			if !s.narrow || v.owner(shard) == "b" && v.runnerUp(shard) == "a" {
				s.keys = append(s.keys, g)
			}
		}
		s.mu.Unlock()
		var all sync.WaitGroup
		for i := range 16 {
			r := rand.New(rand.NewPCG(how.seed, uint64(i+3)))
			all.Go(func() { s.client(i, r) })
		}
		s.torment(how, rnd)
		for _, h := range s.w.hosts {
			h.goOn()
		}
		if !s.w.settle(30 * time.Second) {
			s.fault("not one view again within 30 s after all was healed")
		}
		close(s.stop)
		all.Wait()
	})
	return s
}

func (s *simulation) torment(how simulated, rnd *rand.Rand) {
	end := time.Now().Add(how.length)
	if !how.overlap {
		for time.Now().Before(end) {
			s.nemesis(rnd)
			if !s.w.settle(30 * time.Second) {
				s.fault("not one view again within 30 s")
				return
			}
		}
		return
	}
	var all sync.WaitGroup
	for i := range 2 {
		r := rand.New(rand.NewPCG(how.seed, uint64(100+i)))
		all.Go(func() {
			for time.Now().Before(end) {
				s.nemesis(r)
				time.Sleep(time.Duration(r.Int64N(int64(5 * time.Second))))
			}
		})
	}
	all.Wait()
}

// seeds returns the first seed and how many runs there are to be: as many as COATCHECK_SIMULATIONS says, or one of COATCHECK_SEED. The same seed is not quite the
// same run: goroutines take turns as they like.
func seeds(t *testing.T) (first, n uint64) {
	first, n = 1, 6
	if testing.Short() {
		n = 2
	}
	if v := os.Getenv("COATCHECK_SIMULATIONS"); v != "" {
		var err error
		if n, err = strconv.ParseUint(v, 10, 32); err != nil {
			t.Fatalf("COATCHECK_SIMULATIONS=%s: %v", v, err)
		}
	}
	if v := os.Getenv("COATCHECK_SEED"); v != "" {
		var err error
		if first, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatalf("COATCHECK_SEED=%s: %v", v, err)
		}
		n = 1
	}
	return first, n
}

// broken says whether the simulation finds something in one of some runs when the code is broken on purpose.
func broken(t *testing.T, f faults, narrow bool) {
	t.Helper()
	for seed := uint64(1); seed <= 40; seed++ {
		how := simulated{hosts: 3 + int(seed%3), seed: seed, length: 2 * time.Minute, overlap: seed%2 == 0, faults: f, narrow: narrow}
		if narrow {
			how.hosts, how.overlap = 3, false
		}
		s := simulate(t, how)
		if len(s.faults) > 0 {
			t.Logf("run %d: %d faults, the first: %s", seed, len(s.faults), s.faults[0])
			return
		}
	}
	t.Error("40 runs went well")
}

func TestTheSimulationFindsWhatIsBroken(t *testing.T) {
	t.Run("no copies", func(t *testing.T) { broken(t, faults{noCopies: true}, false) })
	if os.Getenv("COATCHECK_SIMULATIONS") == "" {
		return // the others take more runs
	}
	t.Run("no grace", func(t *testing.T) { broken(t, faults{noGrace: true}, true) })
	t.Run("no majority", func(t *testing.T) { broken(t, faults{noMajority: true}, false) })
	t.Run("no second look", func(t *testing.T) { broken(t, faults{noCheck: true}, false) })
}

func TestOneHolderWhileHostsFail(t *testing.T) {
	first, n := seeds(t)
	total := make(map[string]int)
	for seed := first; seed < first+n; seed++ {
		how := simulated{
			hosts: 3 + int(seed%3), seed: seed, length: 2 * time.Minute,
			overlap: seed%2 == 0, memory: seed%4 == 1, narrow: seed%10 == 5,
		}
		if how.narrow {
			how.hosts = 3
		}
		s := simulate(t, how)
		for k, v := range s.count {
			total[k] += v
		}
		for k, v := range s.w.events {
			total["event: "+k] += v
		}
		for i, f := range s.faults {
			if i < 5 {
				t.Errorf("seed %d: %s", seed, f)
			}
		}
	}
	t.Logf("%d runs: %v", n, total)
}
