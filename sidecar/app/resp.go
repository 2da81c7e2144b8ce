package app

import (
	"fmt"
	"net"
	"os"

	"github.com/coatcheck/coatcheck/sidecar/phpsock"
	"github.com/coatcheck/coatcheck/sidecar/resp"
)

// startRESP serves the Redis protocol. What is kept is there by then, so no client sees a store that is still being filled.
func (a *App) startRESP() error {
	if a.cfg.RESP.IsZero() {
		return nil
	}
	var users resp.Users
	if path := a.cfg.Redis.Users; path != "" {
		var err error
		if users, err = resp.ReadUsers(path); err != nil {
			return err
		}
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
		Address: a.cfg.RESP.String(), Tenant: defaultTenant, Users: users, Connections: a.cfg.Redis.Connections,
		MaxArguments: a.cfg.Redis.MaxArguments, MaxCommand: int(a.cfg.Redis.MaxCommand),
		Unfinished: int(a.cfg.Redis.Unfinished), OutputBuffer: int(a.cfg.Redis.OutputBuffer),
		IdleTimeout: a.cfg.Redis.IdleTimeout, MemoryLimit: int64(a.cfg.Memory.Limit),
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
		return phpsock.ListenUnix(a.cfg.RESP.Address, a.cfg.SocketMode, a.cfg.SocketGroup)
	}
	return net.Listen(a.cfg.RESP.Network, a.cfg.RESP.Address)
}
