package crash

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// activate has the daemon's socket made, as systemd's socket unit does, and passed to each daemon that is started.
func (d *daemon) activate() {
	d.t.Helper()
	l, err := net.Listen("unix", d.socket)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { l.Close() })
	d.passed, err = l.(*net.UnixListener).File()
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { d.passed.Close() })
}

// TestAnUpgradeLosesNoConnectionAttempt: while systemd has the socket, restarts make those who connect wait a little, and nobody
// is turned away. What they wrote is there.
func TestAnUpgradeLosesNoConnectionAttempt(t *testing.T) {
	d := place(t, "")
	d.activate()
	d.start()
	var enough atomic.Bool
	var connects, unanswered atomic.Int64
	acknowledged := make([]int64, 4)
	var clients sync.WaitGroup
	for i := range acknowledged {
		clients.Go(func() {
			for !enough.Load() && !t.Failed() {
				c, err := d.dial()
				var e *wire.Error
				switch {
				case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist), err != nil && strings.Contains(err.Error(), "no daemon at"):
					t.Errorf("a connection attempt was lost: %v", err)
				case err != nil && !errors.As(err, &e):
					unanswered.Add(1) // it was accepted by one that was about to end
				}
				connects.Add(1)
				if err != nil {
					continue
				}
				if _, err := c.Call(t.Context(), "kv.incr_by", wire.Pairs{p("key", fmt.Sprint("n", i))}); err == nil {
					acknowledged[i]++
				}
				c.Close()
			}
		})
	}
	for range 5 {
		before := connects.Load()
		d.await(func() error {
			if n := connects.Load() - before; n < 50 {
				return fmt.Errorf("%d connections since the last restart", n)
			}
			return nil
		})
		d.cmd.Process.Signal(syscall.SIGTERM)
		<-d.over
		if code := d.cmd.ProcessState.ExitCode(); code != 0 {
			t.Fatalf("the daemon ended with %d", code)
		}
		d.start()
	}
	enough.Store(true)
	clients.Wait()
	t.Logf("%d connections over 5 restarts, %d of them ended without an answer", connects.Load(), unanswered.Load())
	c, err := d.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, n := range acknowledged {
		got, err := c.Call(t.Context(), "kv.get", wire.Pairs{p("key", fmt.Sprint("n", i))})
		var found int64
		fmt.Sscan(text(got), &found)
		if err != nil || n == 0 || found < n {
			t.Errorf("%d increments were acknowledged, the counter is %q: %v", n, text(got), err)
		}
	}
}

// TestASocketOfSystemdStays when the daemon ends, and one that no setting names is refused.
func TestASocketOfSystemdStays(t *testing.T) {
	d := place(t, "")
	d.activate()
	d.start()
	d.cmd.Process.Signal(syscall.SIGTERM)
	<-d.over
	if _, err := os.Stat(d.socket); err != nil {
		t.Errorf("the socket is gone: %v", err)
	}
	d.socket = filepath.Join(d.dir, "other")
	expect(t, d.refuses(), filepath.Join(d.dir, "s"), "which no setting names", "ListenStream=")
}

// TestSystemdIsToldOfReadinessAndLife: of readiness only when requests are served.
func TestSystemdIsToldOfReadinessAndLife(t *testing.T) {
	d := place(t, "")
	address := filepath.Join(d.dir, "notify")
	told, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	t.Setenv("NOTIFY_SOCKET", address)
	t.Setenv("WATCHDOG_USEC", "10000000")
	d.launch()
	await := func(want string) {
		t.Helper()
		told.SetReadDeadline(time.Now().Add(patience))
		b := make([]byte, 1000)
		for {
			n, err := told.Read(b)
			if err != nil {
				t.Fatalf("%s was not told: %v", want, err)
			}
			if string(b[:n]) == want {
				return
			}
		}
	}
	await("READY=1")
	if err := d.serves(); err != nil {
		t.Errorf("it does not serve: %v", err)
	}
	await("WATCHDOG=1")
	d.cmd.Process.Signal(syscall.SIGTERM)
	await("STOPPING=1")
	<-d.over
}

// TestTheUnitsAreSound has systemd read them, and asks how much of the machine the daemon could reach.
func TestTheUnitsAreSound(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	dir := t.TempDir()
	for _, name := range []string{"coatcheck.service", "coatcheck.socket"} {
		unit, err := os.ReadFile(filepath.Join("../../tools/systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		unit = bytes.Replace(unit, []byte("/usr/local/bin/coatcheck"), []byte(program), 1) // it must be there
		if err := os.WriteFile(filepath.Join(dir, name), unit, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	verify := exec.Command("systemd-analyze", "verify", "./coatcheck.service", "./coatcheck.socket")
	verify.Dir = dir
	if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	const tolerable = "20" // tenths: 1.4 at the time of writing; 10 is without any protection
	security := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold="+tolerable, "./coatcheck.service")
	security.Dir = dir
	if out, err := security.CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
