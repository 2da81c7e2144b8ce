package app

import (
	"fmt"
	"net"
	"os"

	"github.com/coatcheck/coatcheck/sidecar/config"
	"github.com/coatcheck/coatcheck/sidecar/phpsock"
	"github.com/coatcheck/coatcheck/sidecar/resp"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
)

// startRESP serves the Redis protocol. What is kept is there by then, so no client sees a store that is still being filled.
func (a *App) startRESP() error {
	if a.cfg.RESP.IsZero() {
		return nil
	}
	listener := a.inherited.take(a.cfg.RESP.Address)
	own := listener == nil
	if own {
		var err error
		if listener, err = a.listenRESP(); err != nil {
			return fmt.Errorf("listen for resp: %w", err)
		}
	}
	server := resp.New(resp.Config{
		Address: a.cfg.RESP.String(), Tenants: a.tenants, Tenant: config.DefaultTenant, Users: a.users,
		Connections:  tenant.NewQuota(int64(a.cfg.Redis.Connections)),
		MaxArguments: a.cfg.Redis.MaxArguments, MaxCommand: int(a.cfg.Redis.MaxCommand),
		OutputBuffer: int(a.cfg.Redis.OutputBuffer), IdleTimeout: a.cfg.Redis.IdleTimeout, Timeout: a.cfg.Limits.MessageTimeout,
		Version: a.version, Log: a.log, Metrics: resp.NewMetrics(a.registry),
	}, listener, a.locker)
	a.registry.MustRegister(gauge("coatcheck_resp_connections", "Open connections of the Redis protocol.", server.Connections))
	a.run("resp", server.Serve)
	a.onStop("resp", func() error {
		server.Close()
		if own && a.cfg.RESP.Network == "unix" {
			return os.Remove(a.cfg.RESP.Address)
		}
		return nil
	})
	return nil
}

func (a *App) listenRESP() (net.Listener, error) {
	if a.cfg.RESP.Network == "unix" {
		return phpsock.ListenUnix(a.cfg.RESP.Address, phpsock.File{Mode: a.cfg.SocketMode, Group: a.cfg.SocketGroup})
	}
	return net.Listen(a.cfg.RESP.Network, a.cfg.RESP.Address)
}
