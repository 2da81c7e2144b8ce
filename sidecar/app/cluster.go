package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/cluster"
	"github.com/coatcheck/coatcheck/sidecar/owner"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// hosts is this daemon's place among the others.
type hosts struct {
	cluster *cluster.Cluster
	seat    *owner.Seat
	arbiter *owner.Arbiter
	left    bool // the others have taken over
}

// Names in the data directory.
const (
	clusterDir = "cluster"
	viewFile   = "view"
)

// lookAgain is how often who watches a key looks at it although no change was told: a wake-up from another host may be lost.
const lookAgain = time.Second

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
		Peers: c, Store: state, Keeper: keeper, Clock: a.clock.Now, Disk: disk, Expect: cfg.Expect,
		AckOwner: cfg.Ack == "owner", AckTimeout: cfg.AckTimeout, ServeMinority: cfg.Minority == "serve",
		Log: a.log, Metrics: owner.NewMetrics(a.registry),
	})
	if err != nil {
		return errors.Join(err, c.Close())
	}
	a.hosts = &hosts{cluster: c, seat: seat, arbiter: owner.NewArbiter(seat, owner.Routing{
		Store: state, Log: a.log, Metrics: owner.NewRoutingMetrics(a.registry),
	})}
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

// takeSeat begins to decide and to be asked, once the state is there. On the way down the others take over first, while this host's
// clients are still served.
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
		err := a.hosts.seat.Leave(ctx)
		a.hosts.left = err == nil
		return err
	})
	return nil
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
	return errors.Join(err, h.cluster.Close())
}
