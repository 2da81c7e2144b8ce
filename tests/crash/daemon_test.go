package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// patience is how long a test waits for what should happen at once.
const patience = 60 * time.Second

// daemon is a daemon with its data directory, to be killed and started again.
type daemon struct {
	t      testing.TB
	dir    string
	data   string
	socket string
	args   []string
	user   uint32        // who runs it; 0: who runs the test
	pause  time.Duration // between looks at what is awaited
	passed *os.File      // the socket, as systemd passes it; nil: the daemon makes it
	cmd    *exec.Cmd
	over   chan struct{} // closed when cmd has ended
	log    journalOfLines
}

// journalOfLines is a log that is written by one goroutine and read by another.
type journalOfLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *journalOfLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *journalOfLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// place makes a daemon's directories, and does not start it. data is where it keeps what it keeps; empty: in a directory of the test's.
func place(t testing.TB, data string, args ...string) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(program), "") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	if data == "" {
		data = filepath.Join(dir, "data")
	}
	d := &daemon{t: t, dir: dir, data: data, socket: filepath.Join(dir, "s"), args: args, pause: time.Millisecond}
	t.Cleanup(func() {
		d.kill()
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", d.log.String())
		}
		os.RemoveAll(dir)
	})
	return d
}

// launch starts the daemon and does not wait for it.
func (d *daemon) launch() {
	d.t.Helper()
	command := append([]string{program, "serve", "--socket", d.socket, "--data", d.data}, d.args...)
	if d.passed != nil {
		command = append([]string{"sh", "-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$@"`}, command...)
	}
	d.cmd = exec.Command(command[0], command[1:]...)
	if d.passed != nil {
		d.cmd.ExtraFiles = []*os.File{d.passed}
	}
	d.cmd.Env = append(os.Environ(), "COATCHECK_JOURNAL_SNAPSHOT_AFTER=64KiB", "COATCHECK_DRAIN_TIMEOUT=100ms")
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	if d.user != 0 {
		d.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: d.user, Gid: d.user}}
	}
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.over = make(chan struct{})
	go func(cmd *exec.Cmd, over chan struct{}) {
		cmd.Wait()
		close(over)
	}(d.cmd, d.over)
}

// start starts the daemon and waits until it serves.
func (d *daemon) start() {
	d.t.Helper()
	d.launch()
	d.await(d.serves)
}

// serves returns nil when the daemon answers requests.
func (d *daemon) serves() error {
	c, err := d.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Call(d.t.Context(), "kv.exists", wire.Pairs{{Key: "key", Value: "k"}})
	return err
}

// answers returns nil when the daemon answers, if only that it is starting.
func (d *daemon) answers() error {
	err := d.serves()
	var e *wire.Error
	if errors.As(err, &e) && e.Code == wire.Unavailable {
		return nil
	}
	return err
}

func (d *daemon) dial() (*client.Client, error) {
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	return client.Dial(ctx, d.socket, "crash")
}

// await waits until is returns nil. It fails the test when the daemon ends.
func (d *daemon) await(is func() error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(d.pause)
	defer tick.Stop()
	for {
		err := is()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-d.over:
			d.t.Fatalf("the daemon ended: %s", d.log.String())
		case <-ctx.Done():
			d.t.Fatalf("it did not happen in time; last seen: %v", err)
		}
	}
}

// kill ends the daemon as kill -9 does.
func (d *daemon) kill() {
	if d.cmd != nil {
		d.cmd.Process.Kill()
		<-d.over
	}
}

// refuses starts the daemon, which must end by itself with exit code 1, and returns its last line.
func (d *daemon) refuses() string {
	d.t.Helper()
	d.launch()
	select {
	case <-d.over:
	case <-time.After(patience):
		d.t.Fatalf("the daemon goes on: %s", d.log.String())
	}
	lines := strings.Split(strings.TrimSpace(d.log.String()), "\n")
	last := lines[len(lines)-1]
	if code := d.cmd.ProcessState.ExitCode(); code != 1 || !strings.HasPrefix(last, "coatcheck: ") {
		d.t.Fatalf("exit code %d, and the last line is: %s", code, last)
	}
	return last
}

// says waits until the log has a line with text in it.
func (d *daemon) says(text string) {
	d.t.Helper()
	d.await(func() error {
		if !strings.Contains(d.log.String(), text) {
			return fmt.Errorf("the log does not say %q", text)
		}
		return nil
	})
}
