package client

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// script is a daemon that greets and then answers each request with the next of its answers; after the last it is silent,
// or closes when it is told to.
func script(t *testing.T, closes bool, answers ...[]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	greeting := wire.EndResponse(wire.AppendPairs(wire.BeginResponse(nil, 1), wire.Pairs{{Key: "server", Value: "script"}, {Key: "max_frame", Value: 1000}}), 0)
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		buf := make([]byte, 64<<10)
		for _, answer := range append([][]byte{greeting}, answers...) {
			if _, err := nc.Read(buf); err != nil {
				return
			}
			for _, b := range answer { // in the smallest pieces
				nc.Write([]byte{b})
			}
		}
		if closes {
			nc.Close()
			return
		}
		io.Copy(io.Discard, nc)
		nc.Close()
	}()
	return path
}

func dial(t *testing.T, path string) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := Dial(ctx, path, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func result(id uint32, value string) []byte {
	return wire.EndResponse(append(wire.BeginResponse(nil, id), append([]byte{0xa0 | byte(len(value))}, value...)...), 0)
}

func TestCall(t *testing.T) {
	c := dial(t, script(t, false, result(2, "yes"), wire.AppendError(nil, 3, &wire.Error{Code: wire.Busy, Message: "m"}), result(4, "again")))
	if c.Server() != "script" {
		t.Errorf("the server is %q", c.Server())
	}
	if r, err := c.Call(t.Context(), "a", nil); err != nil || r != "yes" {
		t.Errorf("%v, %v", r, err)
	}
	var e *wire.Error
	if _, err := c.Call(t.Context(), "b", nil); !errors.As(err, &e) || e.Code != wire.Busy {
		t.Errorf("a failure: %v", err)
	}
	if r, err := c.Call(t.Context(), "c", nil); err != nil || r != "again" {
		t.Errorf("after a failure: %v, %v", r, err)
	}
}

func TestDialTellsWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	l, err := net.Listen("unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	for path, says := range map[string]string{
		filepath.Join(dir, "none"): "there is no such socket",
		stale:                      "nobody listens",
	} {
		if _, err := Dial(t.Context(), path, "test"); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
	refusing := script(t, false)
	os.Remove(refusing)
	if _, err := Dial(t.Context(), refusing, "test"); err == nil {
		t.Error("a socket that was removed")
	}
}

func TestNoAnswerInTime(t *testing.T) {
	c := dial(t, script(t, false))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, "server.ping", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that the time is up", err)
	}
}

func TestCancel(t *testing.T) {
	c := dial(t, script(t, false))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(5*time.Millisecond, cancel)
	if _, err := c.Call(ctx, "server.ping", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
}

func TestTheDaemonGoesAway(t *testing.T) {
	c := dial(t, script(t, true))
	if _, err := c.Call(t.Context(), "server.ping", nil); err == nil || !strings.Contains(err.Error(), "closed the connection") {
		t.Errorf("%v", err)
	}
}

func TestAnswersThatAreNot(t *testing.T) {
	for what, answer := range map[string][]byte{
		"to another request": result(77, "x"),
		"garbage":            {0, 0, 0, 1, 0xc0},
		"too large":          {0x7f, 0xff, 0xff, 0xff},
	} {
		c := dial(t, script(t, false, answer))
		if r, err := c.Call(t.Context(), "server.ping", nil); err == nil {
			t.Errorf("%s: %v", what, r)
		}
	}
}

func TestARequestAboveTheDaemonsLimitIsNotSent(t *testing.T) {
	c := dial(t, script(t, false, result(3, "fine")))
	var e *wire.Error
	if _, err := c.Call(t.Context(), "kv.set", wire.Pairs{{Key: "value", Value: make([]byte, 1000)}}); !errors.As(err, &e) || e.Code != wire.TooLarge {
		t.Errorf("%v, want too_large", err)
	}
	if r, err := c.Call(t.Context(), "server.ping", nil); err != nil || r != "fine" {
		t.Errorf("the next request: %v, %v", r, err)
	}
}

func TestIdle(t *testing.T) {
	c := dial(t, script(t, false))
	if err := c.Idle(t.Context(), 5*time.Millisecond); err != nil {
		t.Errorf("nothing happened: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Idle(ctx, time.Minute); err != nil {
		t.Errorf("cancelled: %v", err)
	}
	gone := dial(t, script(t, true))
	if err := gone.Idle(t.Context(), 20*time.Second); err == nil || !strings.Contains(err.Error(), "closed the connection") {
		t.Errorf("the daemon went: %v", err)
	}
}
