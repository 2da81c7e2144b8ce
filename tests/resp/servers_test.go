package resp

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/app"
	"github.com/coatcheck/coatcheck/sidecar/config"
)

// needs skips the test when a program is missing; a CI run must have them all.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, program+" is not installed")
		}
	}
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// limit bounds every wait of a test.
const limit = 20 * time.Second

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", limit, what)
		}
	}
}

// startRedis starts a redis-server and returns the path of its socket.
func startRedis(t *testing.T) string {
	t.Helper()
	needs(t, "redis-server")
	dir := t.TempDir()
	socket := filepath.Join(dir, "redis.sock")
	var log bytes.Buffer
	cmd := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir,
		"--databases", "65536")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	eventually(t, "redis-server answers", func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return socket
}

// endpoint is a daemon that serves the Redis protocol.
type endpoint struct {
	dir  string
	resp string // the endpoint's socket
	log  *lockedBuffer
}

// startEndpoint starts a daemon in this process.
func startEndpoint(t *testing.T, change ...func(*config.Config)) *endpoint {
	t.Helper()
	dir := t.TempDir()
	e := &endpoint{dir: dir, resp: filepath.Join(dir, "resp.sock"), log: &lockedBuffer{}}
	cfg := config.Default()
	cfg.Socket = filepath.Join(dir, "coatcheck.sock")
	cfg.RESP = config.Addr{Network: "unix", Address: e.resp}
	cfg.DrainTimeout = 0
	for _, f := range change {
		f(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	a, err := app.Start(cfg, "test", slog.New(slog.NewTextHandler(e.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Stop()
		if t.Failed() {
			t.Log(e.log.String())
		}
	})
	return e
}

// lockedBuffer is a buffer that goroutines may share.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
