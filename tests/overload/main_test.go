// Package overload asks more of the daemon, the built binary, than it can or should give, and checks that it says so, that its memory
// stays bounded, and that those who ask for little get it.
package overload

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/wire"
	"github.com/coatcheck/coatcheck/tests/tenants/daemon"
)

func TestMain(m *testing.M) {
	if socket := os.Getenv(flood); socket != "" {
		os.Exit(flooding(socket))
	}
	os.Exit(daemon.Main(m))
}

// hello is the frame that every connection begins with.
func hello() []byte {
	return wire.AppendRequest(nil, 1, "hello", daemon.P("version", wire.Version, "client", "overload/1"))
}

// request is a frame.
func request(method string, params ...any) []byte {
	return wire.AppendRequest(nil, 2, method, daemon.P(params...))
}

// crowd opens n connections to one of the daemon's sockets and has each do something, some at a time.
func crowd(t *testing.T, d *daemon.Daemon, socket string, n int, each func(net.Conn) error) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	const atATime = 16
	for worker := range atATime {
		all.Go(func() {
			for i := worker; i < n && errs[worker] == nil; i += atATime {
				nc, err := net.Dial("unix", d.Path(socket))
				if err != nil {
					errs[worker] = err
					return
				}
				conns[i] = nc
				nc.SetDeadline(time.Now().Add(daemon.Patience))
				errs[worker] = each(nc)
			}
		})
	}
	all.Wait()
	t.Cleanup(func() {
		for _, nc := range conns {
			if nc != nil {
				nc.Close()
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return conns
}

// frames reads n frames and returns the error of the last one.
func frames(nc net.Conn, n int) error {
	var b []byte
	buf := make([]byte, 64<<10)
	for {
		frame, rest, err := wire.Next(b, 64<<20)
		if err == nil {
			if n--; n == 0 {
				_, _, err := wire.DecodeResponse(frame)
				return err
			}
			b = rest
			continue
		}
		if !errors.Is(err, wire.ErrIncomplete) {
			return err
		}
		k, err := nc.Read(buf)
		if k == 0 && err != nil {
			return err
		}
		b = append(b, buf[:k]...)
	}
}

// greet says hello and reads the answer.
func greet(nc net.Conn) error {
	if _, err := nc.Write(hello()); err != nil {
		return err
	}
	return frames(nc, 1)
}

// ended says whether the daemon has closed a connection: with the end, or for what it had not read.
func ended(err error) bool {
	var e *wire.Error
	return err != nil && !errors.As(err, &e) && !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF)
}
