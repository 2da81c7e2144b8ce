package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/fpm"
)

func (h *house) startPool() {
	h.t.Helper()
	ini, conf := filepath.Join(h.dir, "php.ini"), filepath.Join(h.dir, "fpm.conf")
	h.write(ini, h.phpIni())
	h.write(conf, h.fpmConf())
	var err error
	h.pool, err = start(filepath.Join(h.dir, "fpm.log"), append(os.Environ(), "PHP_INI_SCAN_DIR="),
		theStage.fpm, "-F", "-y", conf, "-c", ini)
	if err != nil {
		h.t.Fatal(err)
	}
	pool, err := fpm.NewPool(fpm.PoolConfig{Address: h.fpmAddress()})
	if err != nil {
		h.t.Fatal(err)
	}
	eventually(h.t, 10*time.Second, "php-fpm answers its ping", func() (bool, string) {
		err := pool.Ping(context.Background())
		return err == nil, fmt.Sprint(err, "\n", tail(h.pool.log))
	})
}

func (h *house) write(path, content string) {
	h.t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) fpmAddress() string { return "unix:" + filepath.Join(h.dir, "fpm.sock") }

// phpIni buffers the output so that a script may start several sessions, and shows errors in the page.
func (h *house) phpIni() string {
	lines := append([]string{
		"extension=" + theStage.extension,
		"session.save_handler=coatcheck",
		`session.save_path="unix://` + h.socket + `"`,
		"coatcheck.socket=" + h.socket,
		"auto_prepend_file=" + filepath.Join(theStage.scripts, "prepend.php"),
		"output_buffering=On",
		"error_reporting=E_ALL",
		"display_errors=On",
		"html_errors=Off",
		"log_errors=Off",
		"session.serialize_handler=php_serialize",
		"session.gc_probability=0",
		"memory_limit=256M",
		"opcache.enable=Off",
	}, h.plan.ini...)
	return strings.Join(lines, "\n") + "\n"
}

func (h *house) fpmConf() string {
	workers := h.plan.workers
	if workers == 0 {
		workers = 4
	}
	lines := []string{
		"[global]", "error_log=" + filepath.Join(h.dir, "fpm.log"), "daemonize=no", "rlimit_core=0",
		"[e2e]", "listen=" + filepath.Join(h.dir, "fpm.sock"), "listen.mode=0600", "listen.backlog=511",
		"pm=static", fmt.Sprintf("pm.max_children=%d", workers), "ping.path=/ping",
		"catch_workers_output=yes",
	}
	if w := theStage.worker; w != nil {
		lines = append(lines, "user="+w.name, fmt.Sprintf("group=%d", w.gid))
	}
	return strings.Join(append(lines, h.in(h.plan.pool)...), "\n") + "\n"
}

// workers returns the pids of php-fpm's workers.
func (h *house) workers() []int {
	h.t.Helper()
	path := fmt.Sprintf("/proc/%d/task/%[1]d/children", h.pool.pid())
	content, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	var pids []int
	for field := range strings.FieldsSeq(string(content)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			h.t.Fatalf("%s: %s", path, content)
		}
		pids = append(pids, pid)
	}
	return pids
}

// killWorker sends a signal to one of php-fpm's workers.
func (h *house) killWorker(pid int, s syscall.Signal) {
	h.t.Helper()
	if s == syscall.SIGSEGV {
		h.crashes.Add(1)
	}
	if err := syscall.Kill(pid, s); err != nil {
		h.t.Fatalf("kill worker %d: %v", pid, err)
	}
}

// startFront serves the scripts without the daemon's help, so that they answer while it is down.
func (h *house) startFront() {
	h.t.Helper()
	log, err := os.Create(filepath.Join(h.dir, "front.log"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { log.Close() })
	front, err := fpm.NewFront(fpm.Config{
		Address: h.fpmAddress(), Docroot: theStage.scripts,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { front.Close() })
	h.front = httptest.NewServer(front)
	h.client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
}

// gate makes a request that has until=gate in its query stay in its script until the gate opens.
type gate struct {
	h    *house
	path string
}

func (h *house) gate() gate {
	return gate{h, filepath.Join(h.dir, "gates", strconv.FormatInt(h.gates.Add(1), 10))}
}

func (g gate) open() {
	g.h.t.Helper()
	g.h.write(g.path, "")
}

// sign is a file into which a script writes a number when it has come to a certain point.
type sign struct {
	h    *house
	path string
}

func (h *house) sign() sign {
	return sign{h, filepath.Join(h.dir, "files", "sign-"+strconv.FormatInt(h.gates.Add(1), 10))}
}

// await waits for the sign and returns the number.
func (s sign) await() (n int) {
	s.h.t.Helper()
	eventually(s.h.t, 10*time.Second, "the script gives its sign", func() (bool, string) {
		content, err := os.ReadFile(s.path)
		line, whole := strings.CutSuffix(string(content), "\n")
		if err == nil && whole {
			n, err = strconv.Atoi(line)
		}
		return whole && err == nil, fmt.Sprint(line, err)
	})
	return n
}

// cli runs a script by the php command, with the extension loaded.
func (h *house) cli(script string, args ...string) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	command := append([]string{"-c", filepath.Join(h.dir, "php.ini"), filepath.Join(theStage.scripts, script)}, args...)
	cmd := exec.CommandContext(ctx, theStage.php, command...)
	cmd.Env = append(os.Environ(), "PHP_INI_SCAN_DIR=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("php %s: %v\n%s", script, err, out)
	}
	return string(out)
}
