package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// output keeps what a command prints, which another goroutine may read meanwhile.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// command runs a command line.
func command(args ...string) (code int, out, errOut string) {
	var o, e output
	code = run(args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// wants fails the test unless a command line ends with a code and says what it must on standard error.
func wants(t *testing.T, code int, says string, args ...string) {
	t.Helper()
	got, out, errOut := command(args...)
	if got != code || !strings.Contains(errOut, says) {
		t.Errorf("coatcheck %s: exit code %d, want %d, with %q on\nstdout: %s\nstderr: %s", strings.Join(args, " "), got, code, says, out, errOut)
	}
}

func TestWrongCommandLines(t *testing.T) {
	for _, args := range [][]string{
		{"nonsense"}, {"serve", "extra"}, {"serve", "--no-such-flag"}, {"serve", "--socket"},
		{"check-config"}, {"check-config", "a", "b"}, {"ping", "extra"}, {"status", "--timeout", "soon"},
	} {
		wants(t, exitUsage, "coatcheck: ", args...)
	}
}

func TestWrongSettingsNameTheFlag(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	wants(t, exitFailed, "--log-level", "serve", "--socket", socket, "--log-level", "loud")
	wants(t, exitFailed, "--admin", "serve", "--socket", socket, "--admin", "0.0.0.0:8132")
	wants(t, exitFailed, "socket", "serve", "--socket", "/"+strings.Repeat("x", 200))
	wants(t, exitFailed, "missing.toml", "serve", "--socket", socket, "--config", filepath.Join(dir, "missing.toml"))
	t.Setenv("COATCHECK_LOCK_MAX_WAITERS", "none")
	wants(t, exitFailed, "COATCHECK_LOCK_MAX_WAITERS", "serve", "--socket", socket)
}

func TestCheckConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if code, out, errOut := command("check-config", write("good.toml", "[lock]\nmax_waiters = 5\n")); code != exitOK || errOut != "" || out == "" {
		t.Errorf("a good file: %d, %q, %q", code, out, errOut)
	}
	for text, says := range map[string]string{
		"[lock]\nmax_waiter = 5\n":  "max_waiter",
		"[lock]\nmax_waiters = 0\n": "max_waiters",
		"sockt = '/x'\n":            "sockt",
		"[lock\n":                   "bad.toml",
	} {
		if code, out, errOut := command("check-config", write("bad.toml", text)); code != exitFailed || !strings.Contains(out+errOut, says) {
			t.Errorf("%q: exit code %d, and %q is not in %q", text, code, says, out+errOut)
		}
	}
	if code, out, errOut := command("check-config", filepath.Join(dir, "missing.toml")); code != exitFailed || !strings.Contains(out+errOut, "missing.toml") {
		t.Errorf("a missing file: %d, %q", code, out+errOut)
	}
}

func TestWithoutADaemon(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	wants(t, exitUnreachable, "no daemon at "+socket, "ping", "--socket", socket)
	wants(t, exitUnreachable, "no daemon at "+socket, "status", "--socket", socket)
	t.Setenv("COATCHECK_SOCKET", socket)
	wants(t, exitUnreachable, "no daemon at "+socket, "ping")
}

// daemon runs `serve` in this process until the test signals it. It returns its exit code's channel and its log.
func daemon(t *testing.T, args ...string) (<-chan int, *output) {
	t.Helper()
	ended, log := make(chan int, 1), &output{}
	go func() { ended <- run(append([]string{"serve"}, args...), strings.NewReader(""), log, log) }()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(log.String(), "ready"); time.Sleep(time.Millisecond) {
		select {
		case code := <-ended:
			t.Fatalf("serve ended with %d: %s", code, log)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("serve is not ready: %s", log)
		}
	}
	return ended, log
}

func TestServeUntilSIGTERM(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	ended, log := daemon(t, "--socket", socket, "--log-level", "info")

	if code, out, errOut := command("ping", "--socket", socket); code != exitOK || out != "pong\n" || errOut != "" {
		t.Errorf("ping: %d, %q, %q", code, out, errOut)
	}
	code, out, errOut := command("status", "--socket", socket)
	if code != exitOK || errOut != "" {
		t.Errorf("status: %d, %q", code, errOut)
	}
	for _, line := range []string{"sessions ", "locks ", "waiters ", "connections ", "uptime ", "version "} {
		if !strings.Contains(out, line) {
			t.Errorf("status does not have %q:\n%s", line, out)
		}
	}
	code, out, _ = command("status", "--socket", socket, "--json")
	var status map[string]any
	if err := json.Unmarshal([]byte(out), &status); code != exitOK || err != nil || status["version"] != version || status["locks"] != 0.0 {
		t.Errorf("status --json: %d, %v, %s", code, err, out)
	}
	wants(t, exitFailed, "in use", "serve", "--socket", socket)

	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case code := <-ended:
		if code != exitOK || !strings.Contains(log.String(), "shutting down") {
			t.Errorf("serve ended with %d: %s", code, log)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("serve does not end after SIGTERM: %s", log)
	}
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket's file is still there")
	}
}

func TestLogOfProgramsIsJSON(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("COATCHECK_LOG_FORMAT", "json")
	ended, log := daemon(t, "--socket", filepath.Join(dir, "s"))
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("serve does not end after SIGINT")
	}
	for line := range strings.Lines(log.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry["msg"] == nil || entry["level"] == nil {
			t.Errorf("%q: %v", line, err)
		}
	}
}
