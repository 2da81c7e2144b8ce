package apps

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/fpm"
)

// plan says what a site is to be like.
type plan struct {
	app       string            // the directory under tests/apps
	docroot   string            // inside it; "public" unless given
	extension bool              // is coatcheck's extension loaded?
	ini       []string          // more lines for php.ini
	env       map[string]string // for the workers; COATCHECK_SOCKET is there
	workers   int               // 4 unless given
}

// site is one application with a daemon and a php-fpm of its own.
type site struct {
	t      *testing.T
	plan   plan
	dir    string // of sockets, logs and data
	app    string // the copy of the application
	socket string
	daemon *process
	pool   *process
	front  *httptest.Server
}

// open starts everything. The application may write into var/ of its directory.
func open(t *testing.T, p plan) *site {
	t.Helper()
	needStage(t)
	dir, err := os.MkdirTemp(theStage.dir, "site.")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, plan: p, dir: dir, socket: filepath.Join(dir, "coatcheck.sock")}
	s.app = filepath.Join(theStage.dir, "tests", filepath.Base(dir), p.app) // three levels deep, as in the checkout
	must(t, os.Chmod(dir, 0o755))
	must(t, os.CopyFS(s.app, os.DirFS(filepath.Join(theStage.checkout, "tests/apps", p.app))))
	s.makeWritable(filepath.Join(s.app, "var"))
	s.startDaemon()
	t.Cleanup(func() { s.daemon.end() })
	s.startPool()
	t.Cleanup(func() { s.pool.end() })
	s.startFront()
	return s
}

func (s *site) makeWritable(dir string) {
	s.t.Helper()
	must(s.t, os.MkdirAll(dir, 0o755))
	if w := theStage.worker; w != nil {
		must(s.t, os.Chown(dir, w.uid, w.gid))
	}
}

// startDaemon starts it with a data directory, so it may be stopped and started again.
func (s *site) startDaemon() {
	s.t.Helper()
	var env []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "COATCHECK_") && !strings.HasPrefix(variable, "NOTIFY_SOCKET=") {
			env = append(env, variable)
		}
	}
	if w := theStage.worker; w != nil {
		env = append(env, fmt.Sprintf("COATCHECK_SOCKET_GROUP=%d", w.gid))
	}
	s.daemon = start(s.t, filepath.Join(s.dir, "daemon.log"), env,
		theStage.daemon, "serve", "--socket", s.socket, "--data", filepath.Join(s.dir, "data"), "--admin", "unix:"+s.adminSocket())
	eventually(s.t, 10*time.Second, "the daemon answers", func() (bool, string) {
		out, err := exec.Command(theStage.daemon, "ping", "--socket", s.socket).CombinedOutput()
		return err == nil, string(out) + tail(s.daemon.log)
	})
}

func (s *site) startPool() {
	s.t.Helper()
	ini, conf := filepath.Join(s.dir, "php.ini"), filepath.Join(s.dir, "fpm.conf")
	must(s.t, os.WriteFile(ini, []byte(s.phpIni()), 0o644))
	must(s.t, os.WriteFile(conf, []byte(s.fpmConf()), 0o644))
	s.pool = start(s.t, filepath.Join(s.dir, "fpm.log"), os.Environ(), theStage.fpm, "-F", "-y", conf, "-c", ini)
	pool, err := fpm.NewPool(fpm.PoolConfig{Address: s.fpmAddress()})
	must(s.t, err)
	eventually(s.t, 10*time.Second, "php-fpm answers its ping", func() (bool, string) {
		err := pool.Ping(context.Background())
		return err == nil, fmt.Sprint(err, "\n", tail(s.pool.log))
	})
}

func (s *site) adminSocket() string { return filepath.Join(s.dir, "admin.sock") }

func (s *site) fpmAddress() string { return "unix:" + filepath.Join(s.dir, "fpm.sock") }

func (s *site) phpIni() string {
	lines := []string{"error_reporting=E_ALL", "display_errors=Off", "log_errors=On", "memory_limit=256M"}
	if s.plan.extension {
		lines = append(lines, "extension="+theStage.extension, "coatcheck.socket="+s.socket)
	}
	return strings.Join(append(lines, s.plan.ini...), "\n") + "\n"
}

func (s *site) fpmConf() string {
	workers := s.plan.workers
	if workers == 0 {
		workers = 4
	}
	lines := []string{
		"[global]", "error_log=" + filepath.Join(s.dir, "fpm.log"), "daemonize=no", "rlimit_core=0",
		"[app]", "listen=" + filepath.Join(s.dir, "fpm.sock"), "listen.mode=0600", "listen.backlog=511",
		"pm=static", fmt.Sprintf("pm.max_children=%d", workers), "ping.path=/ping", "catch_workers_output=yes",
		"env[COATCHECK_SOCKET]=" + s.socket,
	}
	for name, value := range s.plan.env {
		lines = append(lines, fmt.Sprintf("env[%s]=%q", name, value))
	}
	if w := theStage.worker; w != nil {
		lines = append(lines, "user="+w.name, fmt.Sprintf("group=%d", w.gid))
	}
	return strings.Join(lines, "\n") + "\n"
}

func (s *site) startFront() {
	s.t.Helper()
	docroot := s.plan.docroot
	if docroot == "" {
		docroot = "public"
	}
	log, err := os.Create(filepath.Join(s.dir, "front.log"))
	must(s.t, err)
	s.t.Cleanup(func() { log.Close() })
	front, err := fpm.NewFront(fpm.Config{
		Address: s.fpmAddress(), Docroot: filepath.Join(s.app, docroot), Fallback: "/index.php",
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	must(s.t, err)
	s.t.Cleanup(func() { front.Close() })
	s.front = httptest.NewServer(front)
	s.t.Cleanup(s.front.Close)
}

// workers returns the pids of php-fpm's workers.
func (s *site) workers() []int {
	s.t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.pool.cmd.Process.Pid))
	must(s.t, err)
	var pids []int
	for field := range strings.FieldsSeq(string(content)) {
		pid, err := strconv.Atoi(field)
		must(s.t, err)
		pids = append(pids, pid)
	}
	return pids
}

// visitor is a browser with cookies of its own. Its methods may be called in parallel.
type visitor struct {
	s      *site
	client *http.Client
}

func (s *site) visitor() *visitor {
	jar, err := cookiejar.New(nil)
	must(s.t, err)
	return &visitor{s, &http.Client{Jar: jar, Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

// get returns the body of a page, or an error when its status is not 200.
func (v *visitor) get(path string) (string, error) {
	response, err := v.client.Get(v.s.front.URL + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s\n%s", path, response.StatusCode, body, tail(filepath.Join(v.s.dir, "fpm.log")))
	}
	return string(body), err
}

// want fails the test unless the page is this.
func (v *visitor) want(path, want string) {
	v.s.t.Helper()
	if got, err := v.get(path); err != nil || got != want {
		v.s.t.Fatalf("%s: got %q, %v; want %q", path, got, err, want)
	}
}

// process is a child in the foreground whose output goes to a file.
type process struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{} // closed when it is over
}

func start(t *testing.T, log string, env []string, program string, args ...string) *process {
	t.Helper()
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(t, err)
	defer out.Close()
	p := &process{cmd: exec.Command(program, args...), log: log, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = out, out, env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // should the tests themselves be killed
	must(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // how it ended shows in its log
	}()
	return p
}

// end asks the process to end, and kills it when it does not.
func (p *process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		p.kill()
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// tail returns the end of the log.
func tail(log string) string {
	const shown = 40
	content, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-shown):], "\n")
}

// eventually waits for a condition, which says what it saw. It fails the test when that takes longer than the limit.
func eventually(t *testing.T, limit time.Duration, what string, condition func() (holds bool, seen string)) {
	t.Helper()
	deadline := time.After(limit)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		holds, seen := condition()
		if holds {
			return
		}
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("after %s still not: %s; last seen: %s", limit, what, seen)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
