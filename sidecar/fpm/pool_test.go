package fpm

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// statusPage is what php-fpm sends for json&full, cut to what is read.
func statusPage(states ...string) string {
	var processes []string
	for _, state := range states {
		uri := "/a.php?b"
		if s, own := strings.CutSuffix(state, "+status"); own {
			state, uri = s, "/status?json&full"
		}
		processes = append(processes, `{"pid":7,"state":"`+state+`","requests":3,"request duration":1500,"request uri":"`+uri+`","script":"/www/a.php"}`)
	}
	return rec(6, "Content-Type: application/json\r\n\r\n"+
		`{"pool":"www","process manager":"static","accepted conn":12,"listen queue":4,"active processes":9,"max children reached":2,"slow requests":1,"processes":[`+
		strings.Join(processes, ",")+`]}`) + endOK
}

func newTestPool(t *testing.T, change func(*PoolConfig)) *Pool {
	t.Helper()
	var cfg PoolConfig
	change(&cfg)
	p, err := NewPool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStatusCountsWorkersByTheirStates(t *testing.T) {
	address := startFake(t, sends(statusPage("Idle", "Running", "Reading headers", "Finishing", "Running+status", "Ending", "(null)")))
	for own, want := range map[bool][3]int{true: {3, 2, 1}, false: {4, 1, 1}} {
		p := newTestPool(t, func(c *PoolConfig) {
			c.Address = address
			if !own {
				c.Address, c.StatusAddress = "unix:/elsewhere.sock", address
			}
		})
		s, err := p.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]int{s.Busy, s.Idle, s.Kept}; got != want {
			t.Errorf("through the pool's own workers %v: busy, idle, kept = %v, want %v", own, got, want)
		}
		w := Worker{PID: 7, State: "Idle", Requests: 3, Duration: 1500 * time.Microsecond, Script: "/www/a.php"}
		if s.Pool != "www" || s.Manager != "static" || s.Accepted != 12 || s.ListenQueue != 4 || s.MaxReached != 2 || s.SlowRequests != 1 || s.Workers[0] != w {
			t.Errorf("got %+v", s)
		}
	}
}

func TestPoolFailuresAreToldApart(t *testing.T) {
	hang := func(c net.Conn, _ fakeRequest) { io.Copy(io.Discard, c) }
	tests := []struct {
		name, address string
		ping, status  error
	}{
		{"nobody listens", "unix:" + filepath.Join(t.TempDir(), "none"), ErrUnavailable, ErrUnavailable},
		{"all workers busy", startFake(t, hang), ErrTimeout, ErrTimeout},
		{"closed at once", startFake(t, func(net.Conn, fakeRequest) {}), ErrBrokenOff, ErrBrokenOff},
		{"half a status", startFake(t, sends(statusPage("Idle")[:100])), ErrBrokenOff, ErrBrokenOff},
		{"no JSON", startFake(t, sends(page200("pong"))), nil, ErrMalformed},
		{"a long header line", startFake(t, sends(rec(6, "X: "+strings.Repeat("y", 2000)+"\r\n\r\n")+endOK)), ErrTimeout, ErrTimeout},
	}
	for _, tt := range tests {
		p := newTestPool(t, func(c *PoolConfig) {
			if c.Address, c.Timeout = tt.address, limit; tt.ping == ErrTimeout {
				c.Timeout = 50 * time.Millisecond
			}
		})
		if err := p.Ping(t.Context()); !errors.Is(err, tt.ping) {
			t.Errorf("%s: ping: got %v, want %v", tt.name, err, tt.ping)
		}
		if _, err := p.Status(t.Context()); !errors.Is(err, tt.status) {
			t.Errorf("%s: status: got %v, want %v", tt.name, err, tt.status)
		}
	}
}

func TestPoolWithoutThePathSaysWhatToSet(t *testing.T) {
	p := newTestPool(t, func(c *PoolConfig) {
		c.Address = startFake(t, sends(rec(6, "Status: 404 Not Found\r\nContent-Type: text/html\r\n\r\nFile not found.\n")+endOK))
	})
	if err := p.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "ping.path /ping") || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v", err)
	}
}

func TestPoolEndsWithItsContext(t *testing.T) {
	begun := make(chan struct{})
	p := newTestPool(t, func(c *PoolConfig) {
		c.Timeout = time.Hour
		c.Address = startFake(t, func(c net.Conn, _ fakeRequest) {
			close(begun)
			io.Copy(io.Discard, c)
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Ping(ctx) }()
	receive(t, begun, "the ping")
	cancel()
	if err := receive(t, done, "the end of the ping"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestPoolConfigIsRefusedWithItsReason(t *testing.T) {
	if _, err := NewPool(PoolConfig{Address: "nonsense"}); err == nil {
		t.Error("a bad address was taken")
	}
	if _, err := NewPool(PoolConfig{Address: "h:1", StatusAddress: "nonsense"}); err == nil {
		t.Error("a bad status address was taken")
	}
}
