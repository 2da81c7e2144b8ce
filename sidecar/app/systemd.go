package app

import (
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// inherited are sockets that listen already, by their addresses.
type inherited map[string]net.Listener

// take returns the socket of an address, or nil.
func (i inherited) take(address string) net.Listener {
	l := i[address]
	delete(i, address)
	return l
}

// inherit takes the sockets that systemd passed (sd_listen_fds(3)). They stay open there while the daemon restarts, so who
// connects then waits and is not turned away. Each is used for the setting that has its address.
func (a *App) inherit() error {
	listeners, err := activation.Listeners()
	if err != nil {
		return fmt.Errorf("take the sockets that systemd passed: %w", err)
	}
	a.inherited = make(inherited)
	for i, l := range listeners {
		if l == nil {
			return fmt.Errorf("file descriptor %d, which systemd passed, is not a socket that listens for streams: use ListenStream=", 3+i)
		}
		a.inherited[l.Addr().String()] = l
	}
	return nil
}

// disinherit refuses sockets that no setting named: whoever connects to them would wait for ever.
func (a *App) disinherit() error {
	for address := range a.inherited {
		return fmt.Errorf("systemd passes a socket of %s, which no setting names; make socket, admin, resp, http or a tenant's socket the same as ListenStream=, or leave the socket unit out",
			address)
	}
	return nil
}

// notify tells systemd, if it wants to know (Type=notify).
func (a *App) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		a.log.Warn("could not notify systemd", "state", state, "error", err)
	}
}

// watchdog returns what feeds systemd's watchdog, if there is one (WatchdogSec=).
func (a *App) watchdog() func() {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		a.log.Warn("systemd's watchdog is not fed: its settings cannot be read", "error", err)
	}
	if err != nil || interval == 0 {
		return func() {}
	}
	return func() { a.notify(daemon.SdNotifyWatchdog) }
}
