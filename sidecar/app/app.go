// Package app puts the daemon together: one straight line of steps, each with the undo that belongs to it, and
// the undos run backwards. Any number of apps can run in one process.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/coatcheck/coatcheck/sidecar/admin"
	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/config"
	"github.com/coatcheck/coatcheck/sidecar/fpm"
	"github.com/coatcheck/coatcheck/sidecar/journal"
	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/phpsock"
	"github.com/coatcheck/coatcheck/sidecar/resp"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// App is a running daemon.
type App struct {
	cfg     config.Config
	version string
	log     *slog.Logger
	started time.Time

	registry *prometheus.Registry
	clock    *arbiter.BootClock
	local    *arbiter.Local  // decides what this host has
	hosts    *hosts          // nil: there are no others
	arbiter  arbiter.Arbiter // decides
	locker   *locker.Locker
	journal  *journal.Journal // nil without a data directory
	tenants  *tenant.Set
	users    resp.Users // of the Redis protocol
	sockets  []*phpsock.Server
	pool     *fpm.Pool // nil without an fpm address

	inherited inherited // from systemd, and not used yet

	loaded   atomic.Bool // the journal was replayed
	stopping atomic.Bool
	failed   chan error
	undos    []undo
}

// undo takes back one step of Start.
type undo struct {
	name string
	run  func() error
}

// Start brings a daemon up. The caller calls Stop. When a step fails, those before it are taken back.
func Start(cfg config.Config, version string, log *slog.Logger) (*App, error) {
	a := &App{
		cfg: cfg, version: version, log: log, started: time.Now(),
		registry: prometheus.NewRegistry(), failed: make(chan error, 4),
	}
	steps := []func() error{
		a.inherit, a.startMetrics, a.startStore, a.startTenants, a.startPool, a.openSockets, a.startAdmin, a.startHousekeeping, a.startSockets,
		a.loadJournal, a.startRESP, a.startFront, a.disinherit, a.takeSeat, a.tellReady,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			a.Stop()
			return nil, err
		}
	}
	return a, nil
}

// serves says that the daemon serves.
func (a *App) serves(state string) {
	a.log.Info("ready", "version", a.version, "socket", a.cfg.Socket, "resp", a.cfg.RESP.String(), "admin", a.cfg.Admin.String(), "http", a.cfg.HTTP.String())
	a.notify(state)
}

// Failed delivers the error of a part that ended by itself. The daemon should stop then.
func (a *App) Failed() <-chan error { return a.failed }

// Stop drains the daemon and takes it down.
func (a *App) Stop() {
	a.stopping.Store(true)
	a.notify(daemon.SdNotifyStopping)
	for _, u := range slices.Backward(a.undos) {
		if err := u.run(); err != nil {
			a.log.Error("could not stop cleanly", "part", u.name, "error", err)
		}
	}
	a.undos = nil
}

func (a *App) onStop(name string, run func() error) { a.undos = append(a.undos, undo{name, run}) }

// run starts a part that ends by itself only when it fails.
func (a *App) run(name string, part func() error) {
	go func() {
		if err := part(); err != nil {
			a.failed <- fmt.Errorf("%s: %w", name, err)
		}
	}()
}

func (a *App) startMetrics() error {
	a.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("coatcheck_locks_bound", "Bound locks held by clients of this node.", func() int { return a.locker.Held() }),
		gauge("coatcheck_lock_waiters", "Requests that wait for a lock.", func() int { return a.locker.Waiting() }),
		gauge("coatcheck_connections", "Open connections of the client protocol.", a.connections),
		gauge("coatcheck_sessions", "Session records.", func() int { return a.stats().Sessions }),
		gauge("coatcheck_values", "Values of all buckets.", func() int { return a.stats().Values }),
		gauge("coatcheck_memory_bytes", "Estimated memory of all entries.", func() int { return int(a.stats().Bytes) }),
		gauge("coatcheck_values_evicted", "Values evicted since the start to make room.", func() int { return int(a.stats().Evicted) }),
		gauge("coatcheck_locks", "Held locks, sessions' included.", func() int { return a.stats().Locks }),
	)
	return nil
}

func gauge(name, help string, read func() int) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read()) })
}

// stats counts what all tenants have on this host, copies included.
func (a *App) stats() store.Stats { return a.statsOf("") }

// statsOf counts what a tenant has, or all with the empty name.
func (a *App) statsOf(tenant string) store.Stats {
	r, err := a.local.Do(context.Background(), &store.Command{Op: store.OpStats, Space: store.Space{Tenant: tenant}})
	if err != nil {
		a.log.Warn("could not count what is stored", "error", err)
	}
	return r.Stats
}

// evictions are the values of memory.eviction.
var evictions = map[string]store.Eviction{
	"lru": store.EvictLRU, "volatile-ttl": store.EvictVolatileTTL, "noeviction": store.EvictNone,
}

// startStore makes the state, empty, and those who decide and wait.
func (a *App) startStore() error {
	state := store.New(store.Limits{
		Total: int64(a.cfg.Memory.Limit), Tenant: int64(a.cfg.Memory.TenantLimit), Tenants: a.memoryLimits(),
		Eviction: evictions[a.cfg.Memory.Eviction],
	})
	a.clock = arbiter.NewBootClock(time.Now())
	var keeper arbiter.Keeper
	if a.cfg.Data != "" {
		if err := a.makeJournal(state); err != nil {
			return err
		}
		keeper = a.journal
		a.onStop("journal", a.journal.Close) // after the sockets, for what is still committed there
	}
	a.local = arbiter.NewLocal(state, a.clock.Now, keeper)
	a.arbiter = a.local
	waits := locker.Config{
		Lease: a.cfg.Lock.Lease, MaxHold: a.cfg.Lock.MaxHold,
		MaxWait: a.cfg.Lock.MaxWait, MaxWaiters: a.cfg.Lock.MaxWaiters,
		Log: a.log, Metrics: locker.NewMetrics(a.registry),
	}
	if !a.cfg.Cluster.Bind.IsZero() {
		if err := a.meetHosts(state, keeper); err != nil {
			return err
		}
		a.arbiter = a.hosts.arbiter
		waits.LookAgain = lookAgain
	}
	a.locker = locker.New(a.arbiter, waits)
	return nil
}

// fsyncs are the values of journal.fsync.
var fsyncs = map[string]journal.Fsync{"everysec": journal.EverySec, "always": journal.Always, "no": journal.Never}

// makeJournal makes the journal of state, not yet open.
func (a *App) makeJournal(state *store.Store) error {
	var keys *journal.Keys
	if path := a.cfg.Journal.KeyFile; path != "" {
		var err error
		if keys, err = journal.LoadKeys(path); err != nil {
			return fmt.Errorf("journal.key_file: %w", err)
		}
	}
	a.journal = journal.New(journal.Config{
		Dir: a.cfg.Data, Fsync: fsyncs[a.cfg.Journal.Fsync], Values: a.cfg.Journal.Values, Keys: keys,
		Grow: int64(a.cfg.Journal.SnapshotAfter), Log: a.log, Metrics: journal.NewMetrics(a.registry),
	}, state)
	return nil
}

// loadJournal brings back what was kept. Requests are answered with "starting" until it is done.
func (a *App) loadJournal() error {
	if a.journal != nil {
		if err := a.journal.Open(); err != nil {
			return fmt.Errorf("data directory %s: %w", a.cfg.Data, err)
		}
	}
	a.loaded.Store(true)
	for _, s := range a.sockets {
		s.Ready()
	}
	return nil
}

// startHousekeeping starts what is to be done now and then. It goes on while the socket is drained, for what is committed
// then is to be made durable too.
func (a *App) startHousekeeping() error {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.keepHouse(ctx)
	}()
	a.onStop("housekeeping", func() error {
		cancel()
		<-done
		return nil
	})
	return nil
}

// How often the house is kept, and how many expired entries of one shard are dropped at a time: 256,000 of all.
const (
	houseEvery = 500 * time.Millisecond
	sweepLimit = 1_000
)

// keepHouse does what is to be done now and then.
func (a *App) keepHouse(ctx context.Context) {
	tick := time.NewTicker(houseEvery)
	defer tick.Stop()
	gc := newCollector()
	feed := a.watchdog()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.clock.Adjust()
			if !a.loaded.Load() {
				feed()
				continue
			}
			gc.adjust() // not before: a replay leaves less garbage than its files have bytes
			if a.journal != nil {
				a.journal.Tick()
			}
			if _, err := arbiter.Sweep(ctx, a.arbiter, sweepLimit); err != nil {
				a.log.Warn("could not drop what has expired, trying again", "error", err)
			}
			feed() // who hangs somewhere above does not
		}
	}
}

func (a *App) startPool() (err error) {
	if a.cfg.FPM.IsZero() {
		return nil
	}
	a.pool, err = fpm.NewPool(fpm.PoolConfig{Address: a.cfg.FPM.String(), StatusAddress: a.cfg.FPMStatus.String()})
	return err
}

// openSockets makes the sockets. The admin pages tell of them, and stay until they are drained.
func (a *App) openSockets() error {
	all := tenant.NewQuota(int64(a.cfg.Limits.Connections))
	metrics := phpsock.NewMetrics(a.registry)
	open := func(name, path string, file phpsock.File) error {
		s, err := phpsock.Listen(phpsock.Config{
			Path: path, File: file, Listener: a.inherited.take(path), Tenant: a.tenants.Of(name), Connections: all,
			MaxFrame: int(a.cfg.Limits.MaxFrame), Timeout: a.cfg.Limits.MessageTimeout, Version: a.version, Log: a.log, Metrics: metrics,
			Status:  func(ctx context.Context) (wire.Pairs, error) { return a.status(ctx, name) },
			Cluster: a.operable(),
		}, a.locker)
		if err != nil {
			return err
		}
		a.sockets = append(a.sockets, s)
		part := "socket"
		if name != config.DefaultTenant {
			part += " of tenant " + name
		}
		a.onStop(part, func() error {
			s.Close()
			return nil
		})
		return nil
	}
	file := phpsock.File{Mode: a.cfg.SocketMode, Group: a.cfg.SocketGroup}
	if err := open(config.DefaultTenant, a.cfg.Socket, file); err != nil {
		return err
	}
	for _, t := range a.cfg.Tenants {
		if t.Socket == "" {
			continue
		}
		if err := open(t.Name, t.Socket, phpsock.File{Mode: t.Mode, Owner: t.Owner, Group: t.Group}); err != nil {
			return fmt.Errorf("tenant %s: %w", t.Name, err)
		}
	}
	return nil
}

func (a *App) startSockets() error {
	for _, s := range a.sockets {
		a.run("socket", s.Serve)
	}
	a.onStop("drain", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), a.cfg.DrainTimeout)
		defer cancel()
		var drained sync.WaitGroup
		for _, s := range a.sockets {
			drained.Go(func() { s.Drain(ctx) })
		}
		drained.Wait()
		return nil
	})
	return nil
}

// connections returns how many connections all sockets have.
func (a *App) connections() (n int) {
	for _, s := range a.sockets {
		n += s.Connections()
	}
	return n
}

func (a *App) startFront() error {
	if a.cfg.HTTP.IsZero() {
		return nil
	}
	front, err := fpm.NewFront(fpm.Config{
		Address: a.cfg.FPM.String(), Docroot: a.cfg.Docroot, Logger: a.log,
		Timeout: a.cfg.Front.Timeout, MaxBody: int64(a.cfg.Front.MaxBody),
	})
	if err != nil {
		return err
	}
	a.onStop("front", front.Close)
	server := admin.Server(front, a.log)
	return a.serveHTTP("http", a.cfg.HTTP, server)
}

func (a *App) startAdmin() error {
	if a.cfg.Admin.IsZero() {
		return nil
	}
	a.warnOfAdmin()
	server := admin.Server(admin.New(admin.Config{
		Arbiter: a.arbiter, Metrics: a.registry, Ready: a.ready, Status: a.statusOfAll, Members: a.members(), Log: a.log,
	}), a.log)
	return a.serveHTTP("admin", a.cfg.Admin, server)
}

// ready returns nil while the daemon serves.
func (a *App) ready() error {
	switch {
	case a.stopping.Load():
		return locker.ErrShuttingDown
	case !a.loaded.Load():
		return phpsock.ErrStarting
	}
	var err error
	if a.journal != nil {
		err = a.journal.Ready()
	}
	if err == nil && a.hosts != nil {
		err = a.hosts.seat.Ready()
	}
	return err
}

// serveHTTP serves an address until Stop.
func (a *App) serveHTTP(name string, address config.Addr, server *http.Server) error {
	listener, err := a.listenHTTP(address)
	if err != nil {
		return fmt.Errorf("listen for %s (the setting %s): %w", name, name, err)
	}
	a.run(name, func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	a.onStop(name, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), a.cfg.DrainTimeout)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			return server.Close()
		}
		return nil
	})
	return nil
}

// operatorsOnly is the mode of the admin pages' socket: they show all tenants.
const operatorsOnly = 0o600

// fileListener is a Unix socket whose file goes with it.
type fileListener struct {
	net.Listener
	path string
}

// Close removes the name first: when nobody listens on it any more, another daemon may have taken it.
func (l fileListener) Close() error {
	os.Remove(l.path)
	return l.Listener.Close()
}

func (a *App) listenHTTP(address config.Addr) (net.Listener, error) {
	if l := a.inherited.take(address.Address); l != nil {
		return l, nil
	}
	if address.Network == "unix" {
		l, err := phpsock.ListenUnix(address.Address, phpsock.File{Mode: operatorsOnly})
		if err != nil {
			return nil, err
		}
		return fileListener{l, address.Address}, nil
	}
	return net.Listen(address.Network, address.Address)
}
