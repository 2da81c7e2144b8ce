package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/cluster"
	"github.com/coatcheck/coatcheck/sidecar/owner"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// hosts is this daemon's place among the others.
type hosts struct {
	id      string // of the cluster
	cluster *cluster.Cluster
	seat    *owner.Seat
	arbiter *owner.Arbiter
	left    bool // the others have taken over, on the way down

	moving chan struct{} // holds one join or leave of an operator
	away   atomic.Bool   // an operator has this host own nothing

	mu     sync.Mutex
	ending bool // the daemon stops, so the host does not come back; guarded by mu
}

// Names in the data directory.
const (
	clusterDir = "cluster"
	viewFile   = "view"
)

// lookAgain is how often who watches a key looks at it although no change was told: a wake-up from another host may be lost.
const lookAgain = time.Second

// systemdPatience is how long systemd is to wait for another sign while this host waits for the others.
const systemdPatience = 30 * time.Second

// meetHosts makes this daemon known to the others of its cluster. It decides nothing and asks nobody before takeSeat.
func (a *App) meetHosts(state *store.Store, keeper arbiter.Keeper) error {
	cfg := a.cfg.Cluster
	dir, disk, err := a.clusterFiles()
	if err != nil {
		return err
	}
	c, err := cluster.Start(cluster.Config{
		ID: cfg.ClusterID, Name: cfg.Name, Dir: dir,
		Bind: cfg.Bind.Address, Advertise: cfg.Advertise.Address,
		PeerBind: cfg.PeerBind.Address, PeerAdvertise: cfg.PeerAdvertise.Address, Join: cfg.Join,
		SecretFile: cfg.SecretFile, TLSCert: cfg.TLSCert, TLSKey: cfg.TLSKey, TLSCA: cfg.TLSCA,
		MaxFrame: a.peerFrame(), Log: a.log,
	})
	if err != nil {
		return err
	}
	seat, err := owner.New(owner.Config{
		Peers: c, Store: state, Keeper: keeper, Clock: a.clock.Now, Disk: disk, Expect: cfg.Expect, Machine: machine(),
		AckOwner: cfg.Ack == "owner", AckTimeout: cfg.AckTimeout, ServeMinority: cfg.Minority == "serve",
		Log: a.log, Metrics: owner.NewMetrics(a.registry),
	})
	if err != nil {
		return errors.Join(err, c.Close())
	}
	a.hosts = &hosts{
		id: cfg.ClusterID, cluster: c, seat: seat, moving: make(chan struct{}, 1),
		arbiter: owner.NewArbiter(seat, owner.Routing{Store: state, Log: a.log, Metrics: owner.NewRoutingMetrics(a.registry)}),
	}
	a.registry.MustRegister(a.hosts.gauges()...)
	a.onStop("cluster", a.partHosts)
	return nil
}

// clusterFiles returns where the member set and the view are kept; without a data directory, nowhere.
func (a *App) clusterFiles() (dir string, disk owner.Disk, err error) {
	if a.cfg.Data == "" {
		return "", nil, nil
	}
	dir = filepath.Join(a.cfg.Data, clusterDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("make the cluster's directory: %w", err)
	}
	return dir, owner.File{Path: filepath.Join(dir, viewFile)}, nil
}

// peerFrame returns the size of the largest message between hosts: what any client may send or get, and what goes with it.
func (a *App) peerFrame() int {
	const besides = 1 << 20
	return int(max(a.cfg.Limits.MaxFrame, a.cfg.Redis.MaxCommand, a.cfg.Redis.OutputBuffer)) + besides
}

// takeSeat begins to decide and to be asked, once the state is there. It comes last: on the way down the others take over first, while
// the clients of all this host's parts are still served.
func (a *App) takeSeat() error {
	if a.hosts == nil {
		return nil
	}
	a.hosts.arbiter.OnWake(a.locker.Wake)
	a.hosts.cluster.Handle(a.hosts.seat)
	a.hosts.seat.Start()
	a.onStop("seat", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), a.cfg.DrainTimeout)
		defer cancel()
		return a.hosts.vacate(ctx)
	})
	return nil
}

// vacate has the others take over for good.
func (h *hosts) vacate(ctx context.Context) error {
	h.mu.Lock()
	h.ending = true
	h.mu.Unlock()
	err := h.seat.Leave(ctx)
	h.left = err == nil
	return err
}

// tellReady says that the daemon serves, once it does: one that is alone does now, another when it has its place among the others.
// Start does not wait for that, for the others may have to be started yet.
func (a *App) tellReady() error {
	if a.hosts == nil {
		a.serves(daemon.SdNotifyReady)
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if a.awaitPlace(ctx) == nil {
			a.serves(daemon.SdNotifyReady + "\nSTATUS=serves")
		}
	}()
	a.onStop("waiting for the other hosts", func() error {
		cancel()
		<-done
		return nil
	})
	return nil
}

// awaitPlace returns nil when this host has its place. Meanwhile it asks systemd for more patience: it is the other hosts that take their time.
func (a *App) awaitPlace(ctx context.Context) error {
	for told := false; ctx.Err() == nil; told = true {
		once, cancel := context.WithTimeout(ctx, lookAgain)
		err := a.hosts.seat.WaitReady(once)
		cancel()
		if err == nil {
			return nil
		}
		if !told {
			a.log.Info("waiting for the other hosts", "error", err)
		}
		a.notify(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\nSTATUS=waiting for the other hosts: %v", systemdPatience.Microseconds(), err))
	}
	return ctx.Err()
}

// partHosts ends what goes on between this host and the others. It stays in the member set if its copies may be needed:
// who counts a majority must count it.
func (a *App) partHosts() error {
	h := a.hosts
	var err error
	if h.left {
		ctx, cancel := context.WithTimeout(context.Background(), a.cfg.DrainTimeout)
		defer cancel()
		err = h.cluster.Leave(ctx)
	}
	h.seat.Stop()
	return errors.Join(err, h.seat.Settle(), h.cluster.Close())
}

// machine returns what the kernel calls the present run of this machine, or nothing.
func machine() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
