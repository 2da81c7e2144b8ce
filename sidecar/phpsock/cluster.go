package phpsock

import (
	"context"
	"fmt"
	"os"

	"github.com/tinylib/msgp/msgp"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// Cluster is this host's place in a cluster, as an operator sees and changes it. An error that is a *wire.Error is told to the client as
// it is.
type Cluster interface {
	// Members tells what this host knows of the members.
	Members(ctx context.Context) (wire.Pairs, error)
	// Join meets the host whose gossip is at an address, unless that is empty, and takes back a Leave.
	Join(ctx context.Context, address string) error
	// Leave has others take over what this host owns.
	Leave(ctx context.Context) error
	// Forget takes a member out that is gone for good. With force also where this host hears no majority.
	Forget(id string, force bool) error
	// Reload reads the secrets and certificates again and returns the secrets' fingerprints.
	Reload() ([]string, error)
}

// clusterMembers tells everybody who may open a socket, as the list of locks does.
func (c *conn) clusterMembers(_ *wire.Params, out []byte) ([]byte, error) {
	if c.s.cfg.Cluster == nil {
		return out, alone()
	}
	return out, &wait{run: func(ctx context.Context, out []byte) ([]byte, error) {
		members, err := c.s.cfg.Cluster.Members(ctx)
		return wire.AppendPairs(out, members), err
	}}
}

func (c *conn) clusterJoin(p *wire.Params, out []byte) ([]byte, error) {
	address := string(p.Key)
	return c.operate("join", func(ctx context.Context) error { return c.s.cfg.Cluster.Join(ctx, address) }, out)
}

func (c *conn) clusterLeave(_ *wire.Params, out []byte) ([]byte, error) {
	return c.operate("leave", func(ctx context.Context) error { return c.s.cfg.Cluster.Leave(ctx) }, out)
}

func (c *conn) clusterForget(p *wire.Params, out []byte) ([]byte, error) {
	id, force := string(p.Key), p.Force
	if id == "" {
		return out, misused(wire.ClusterForget, "id is missing")
	}
	return c.operate("forget", func(context.Context) error { return c.s.cfg.Cluster.Forget(id, force) }, out)
}

func (c *conn) clusterReload(_ *wire.Params, out []byte) ([]byte, error) {
	if err := c.mayOperate(); err != nil {
		return out, err
	}
	return out, &wait{run: func(_ context.Context, out []byte) ([]byte, error) {
		secrets, err := c.s.cfg.Cluster.Reload()
		list := make([][]byte, len(secrets))
		for i, s := range secrets {
			list[i] = []byte(s)
		}
		return wire.AppendPairs(out, wire.Pairs{{Key: "secrets", Value: list}}), err
	}}
}

// operate does what an operator asks for, which may take its time, and answers true.
func (c *conn) operate(what string, do func(context.Context) error, out []byte) ([]byte, error) {
	if err := c.mayOperate(); err != nil {
		return out, err
	}
	log := c.s.cfg.Log.With("what", what, "pid", c.who.PID, "uid", c.peer.uid)
	return out, &wait{run: func(ctx context.Context, out []byte) ([]byte, error) {
		log.Info("an operator changes the cluster")
		return msgp.AppendBool(out, true), do(ctx)
	}}
}

// mayOperate says why the client may not change the cluster. The socket's permissions are not enough for that: they let PHP in, and what
// is changed here concerns all tenants and all hosts.
func (c *conn) mayOperate() error {
	if c.s.cfg.Cluster == nil {
		return alone()
	}
	own := os.Geteuid()
	if c.peer.uid == 0 || c.peer.uid == own {
		return nil
	}
	return &wire.Error{
		Code:    wire.Refused,
		Message: fmt.Sprintf("only root and the daemon's own user, number %d, may change the cluster; this is user number %d", own, c.peer.uid),
		Details: wire.Pairs{{Key: "reason", Value: notOperator}, {Key: "uid", Value: c.peer.uid}},
	}
}

// alone is the error of a daemon without a cluster.
func alone() error {
	return &wire.Error{
		Code: wire.Refused, Message: "this daemon is alone: cluster.bind is not set",
		Details: wire.Pairs{{Key: "reason", Value: noCluster}},
	}
}
