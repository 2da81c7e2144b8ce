package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// workers is the size of each php-fpm pool, and how many visitors come at once.
const workers = 8

// patience is how long a server may take to start or to stop.
const patience = 10 * time.Second

// machine is everything that was started for the run.
type machine struct {
	options
	dir        string // sockets, settings and logs; removed at the end
	php        string
	apcu       bool // the extension is there
	contenders []contender
	servers    []*server
}

// server is a program that was started.
type server struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has
}

// startMachine starts all servers. The caller calls stop.
func startMachine(ctx context.Context, o options) (*machine, error) {
	dir, err := os.MkdirTemp("", "coatcheck-bench.")
	if err != nil {
		return nil, err
	}
	m := &machine{options: o, dir: dir, contenders: contenders(dir)}
	if err := m.start(ctx); err != nil {
		return nil, errors.Join(err, m.stop())
	}
	return m, nil
}

func (m *machine) start(ctx context.Context) (err error) {
	if m.php, err = find("php8.2", "php"); err != nil {
		return err
	}
	fpm, err := find("php-fpm8.2", "php-fpm")
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(m.dir, "files"), 0o700); err != nil {
		return err
	}
	if err := m.writeSettings(ctx); err != nil {
		return err
	}
	socket := func(name string) string { return filepath.Join(m.dir, name+".sock") }
	user := []string{}
	if os.Geteuid() == 0 {
		user = []string{"-u", "root"} // memcached refuses to guess it
	}
	pools := make([]string, 0, len(m.contenders))
	for _, c := range m.contenders {
		pools = append(pools, socket("fpm-"+c.pool))
	}
	return errors.Join(
		m.serve(ctx, []string{socket("coatcheck"), socket("resp")}, filepath.Join(m.root, "bin/coatcheck"),
			"serve", "--socket", socket("coatcheck"), "--data", "", "--resp", "unix:"+socket("resp"), "--log-level", "warn"),
		m.serve(ctx, []string{socket("redis")}, "redis-server",
			"--port", "0", "--unixsocket", socket("redis"), "--save", "", "--appendonly", "no", "--dir", m.dir),
		m.serve(ctx, []string{socket("memcached")}, "memcached",
			append(user, "-s", socket("memcached"), "-m", "256")...),
		// --allow-to-run-as-root, because the workers must reach a directory that only its owner can enter.
		m.serve(ctx, pools, fpm, "--nodaemonize", "--allow-to-run-as-root",
			"--fpm-config", filepath.Join(m.dir, "php-fpm.conf"), "-c", filepath.Join(m.dir, "php.ini")),
	)
}

// find returns the first of these programs that is there.
func find(names ...string) (string, error) {
	for _, name := range names {
		for _, name := range []string{name, "/usr/sbin/" + name} {
			if path, err := exec.LookPath(name); err == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("there is no %s: tools/install.sh build run bench installs it", names[0])
}

// serve starts a server and waits until it answers on its sockets.
func (m *machine) serve(ctx context.Context, sockets []string, program string, args ...string) error {
	name := filepath.Base(program)
	log, err := os.Create(filepath.Join(m.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s := &server{name: name, cmd: exec.Command(program, args...), ended: make(chan struct{})} //nolint:noctx // it is stopped in its turn
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Env, s.cmd.Dir = log, log, environment(), m.dir
	// Ctrl-C is for us alone; should we die without stopping it, it is told to end.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	m.servers = append(m.servers, s)
	go func() {
		s.cmd.Wait() //nolint:errcheck // how it ended is in its log
		close(s.ended)
	}()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, socket := range sockets {
		if err := s.await(ctx, socket); err != nil {
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%w; it said:\n%s", err, said)
		}
	}
	return nil
}

// pid returns the process id of a server.
func (m *machine) pid(name string) int {
	for _, s := range m.servers {
		if s.name == name {
			return s.cmd.Process.Pid
		}
	}
	panic("bench: no server is called " + name)
}

// await waits until somebody listens on the server's socket.
func (s *server) await(ctx context.Context, socket string) error {
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "unix", socket)
		if err == nil {
			return c.Close()
		}
		select {
		case <-s.ended:
			return fmt.Errorf("%s ended at once", s.name)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer on %s: %w", s.name, socket, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// environment is ours without what would change a server's or PHP's settings.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "COATCHECK_") && !strings.HasPrefix(v, "PHP") {
			env = append(env, v)
		}
	}
	return append(env, "PHP_INI_SCAN_DIR=") // only our php.ini counts
}

// stop ends the servers, the last one first, and removes the directory.
func (m *machine) stop() error {
	var errs []error
	for len(m.servers) > 0 {
		s := m.servers[len(m.servers)-1]
		m.servers = m.servers[:len(m.servers)-1]
		s.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended
		select {
		case <-s.ended:
		case <-time.After(patience):
			errs = append(errs, fmt.Errorf("%s did not stop and was killed", s.name), s.cmd.Process.Kill())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(m.dir))...)
}

// writeSettings writes php.ini and php-fpm.conf.
func (m *machine) writeSettings(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, m.php, "-n", "-r", "echo ini_get('extension_dir');").Output()
	if err != nil {
		return fmt.Errorf("ask %s for its extension_dir: %w", m.php, err)
	}
	extension := filepath.Join(m.root, "phpext-shim/modules/coatcheck.so")
	if _, err := os.Stat(extension); err != nil {
		return fmt.Errorf("the extension is not there; make ext builds it: %w", err)
	}
	ini := []string{"zend_extension = opcache.so", "error_log = " + filepath.Join(m.dir, "php.log"), "log_errors = 1", "display_errors = 0"}
	for _, name := range []string{"igbinary.so", "msgpack.so", "redis.so", "memcached.so", "apcu.so"} {
		// The first two serve the others only where they were built with them; the last is only compared with.
		if _, err := os.Stat(filepath.Join(string(out), name)); err == nil {
			ini = append(ini, "extension = "+name)
			m.apcu = m.apcu || name == "apcu.so"
		}
	}
	ini = append(ini, "extension = "+extension)
	conf := []string{"[global]", "error_log = " + filepath.Join(m.dir, "fpm.log")}
	for _, c := range m.contenders {
		conf = append(
			conf, "["+c.pool+"]", fmt.Sprintf("listen = %s/fpm-%s.sock", m.dir, c.pool),
			"pm = static", fmt.Sprintf("pm.max_children = %d", workers),
		)
		if os.Geteuid() == 0 {
			conf = append(conf, "user = root", "group = root")
		}
		for _, setting := range c.Settings {
			name, value, _ := strings.Cut(setting, "=")
			conf = append(conf, fmt.Sprintf("php_admin_value[%s] = %s", name, value))
		}
	}
	return errors.Join(m.write("php.ini", ini), m.write("php-fpm.conf", conf))
}

func (m *machine) write(name string, lines []string) error {
	return os.WriteFile(filepath.Join(m.dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// script runs one of our scripts by the PHP command line as this contender, and decodes what it prints.
func (m *machine) script(ctx context.Context, c contender, into any, name string, args ...string) error {
	command := []string{"-c", filepath.Join(m.dir, "php.ini"), "-d", "session.use_cookies=0", "-d", "session.cache_limiter="}
	for _, setting := range c.Settings {
		command = append(command, "-d", setting)
	}
	command = append(append(command, filepath.Join(m.root, "tests/bench", name)), args...)
	cmd := exec.CommandContext(ctx, m.php, command...)
	cmd.Env = environment()
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	if err != nil {
		said, _ := os.ReadFile(filepath.Join(m.dir, "php.log"))
		return fmt.Errorf("%s as %s: %w: %.500s%s", name, c.Name, err, out, said)
	}
	return nil
}
