// Package daemon starts the built daemon, with a file of settings, for the tests of tenants and of overload.
package daemon

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// Patience is how long a test waits for what should happen at once.
const Patience = 30 * time.Second

// program is the built binary.
var program string

// Main builds the daemon, runs the tests and removes what they left.
func Main(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "coatcheck-test.")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // some run it as another user
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	program = filepath.Join(dir, "coatcheck")
	build := exec.Command("go", "build", "-o", program, "github.com/coatcheck/coatcheck/sidecar/cmd/coatcheck")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the binary: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// Daemon is a running daemon.
type Daemon struct {
	T    testing.TB
	Dir  string // of its sockets and files
	cmd  *exec.Cmd
	over chan struct{} // closed when it has ended
	log  text
}

// text is a log that is written by one goroutine and read by another.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *text) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Place makes the directory of a daemon, and does not start it.
func Place(t testing.TB) *Daemon {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(program), "") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{T: t, Dir: dir}
	t.Cleanup(func() {
		d.Stop()
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", d.Log())
		}
		os.RemoveAll(dir)
	})
	return d
}

// Start starts a daemon with settings in which DIR stands for its directory, and waits until it serves. Its own socket is DIR/s, its
// pages are on DIR/admin.
func Start(t testing.TB, settings string) *Daemon {
	t.Helper()
	d := Place(t)
	d.Launch(settings, 0)
	Until(t, "the daemon is ready", func() bool {
		select {
		case <-d.over:
			t.Fatalf("the daemon ended: %s", d.Log())
		default:
		}
		return strings.Contains(d.Log(), "msg=ready")
	})
	return d
}

// Launch starts the daemon as a user (0: whoever runs the test) and does not wait for it.
func (d *Daemon) Launch(settings string, uid uint32) {
	d.T.Helper()
	file := d.Path("coatcheck.toml")
	settings = "socket = 'DIR/s'\nadmin = 'unix:DIR/admin'\ndrain_timeout = '200ms'\n" + settings
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(settings, "DIR", d.Dir)), 0o644); err != nil {
		d.T.Fatal(err)
	}
	d.cmd = exec.Command(program, "serve", "--config", file)
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	if uid != 0 {
		d.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	if err := d.cmd.Start(); err != nil {
		d.T.Fatal(err)
	}
	d.over = make(chan struct{})
	go func() {
		d.cmd.Wait()
		close(d.over)
	}()
}

// Ends waits for the daemon to end by itself, and returns its exit code.
func (d *Daemon) Ends() int {
	d.T.Helper()
	select {
	case <-d.over:
	case <-time.After(Patience):
		d.T.Fatalf("the daemon goes on: %s", d.Log())
	}
	return d.cmd.ProcessState.ExitCode()
}

// Stop has the daemon end, and kills it when it does not.
func (d *Daemon) Stop() {
	if d.cmd == nil || d.cmd.Process == nil {
		return
	}
	d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.over:
	case <-time.After(Patience):
		d.T.Errorf("the daemon does not stop")
		d.cmd.Process.Kill()
		<-d.over
	}
}

// Path returns the path of a file of the daemon's.
func (d *Daemon) Path(name string) string { return filepath.Join(d.Dir, name) }

// Log returns what the daemon has said so far.
func (d *Daemon) Log() string { return d.log.String() }

// Says waits until the log has a line with text in it.
func (d *Daemon) Says(text string) {
	d.T.Helper()
	Until(d.T, fmt.Sprintf("the log says %q", text), func() bool { return strings.Contains(d.Log(), text) })
}

var resident = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// Resident returns how much memory the daemon has, in bytes.
func (d *Daemon) Resident() int64 {
	d.T.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	m := resident.FindSubmatch(status)
	if err != nil || m == nil {
		d.T.Fatalf("the daemon's memory is not told: %v", err)
	}
	kib, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return kib << 10
}

// Page returns an admin page.
func (d *Daemon) Page(path string) string {
	d.T.Helper()
	web := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", d.Path("admin"))
		},
	}}
	r, err := web.Get("http://admin" + path)
	if err != nil {
		d.T.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		d.T.Fatalf("%s: %d, %v", path, r.StatusCode, err)
	}
	return string(body)
}

// Metric returns a metric, given as it stands on the page, with its labels; -1 when it is not there.
func (d *Daemon) Metric(name string) float64 {
	d.T.Helper()
	for line := range strings.Lines(d.Page("/metrics")) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				d.T.Fatal(err)
			}
			return n
		}
	}
	return -1
}

// Until waits for a condition and fails the test when it does not come.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(Patience); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", Patience, what)
		}
	}
}

// Client is a client of a socket.
type Client struct {
	*client.Client
	t testing.TB
}

// Dial connects to one of the daemon's sockets.
func (d *Daemon) Dial(socket string) *Client {
	d.T.Helper()
	c, err := d.TryDial(socket)
	if err != nil {
		d.T.Fatal(err)
	}
	return c
}

// TryDial is Dial for a connection that may be refused.
func (d *Daemon) TryDial(socket string) (*Client, error) {
	ctx, cancel := context.WithTimeout(d.T.Context(), Patience)
	defer cancel()
	c, err := client.Dial(ctx, d.Path(socket), "test")
	if err != nil {
		return nil, err
	}
	d.T.Cleanup(func() { c.Close() })
	return &Client{c, d.T}, nil
}

// P makes parameters of names and values in turn.
func P(list ...any) (pairs wire.Pairs) {
	for i := 0; i < len(list); i += 2 {
		pairs = append(pairs, wire.Pair{Key: list[i].(string), Value: list[i+1]})
	}
	return pairs
}

// Ask calls a method that must succeed.
func (c *Client) Ask(method string, params ...any) any {
	c.t.Helper()
	result, err := c.Call(c.t.Context(), method, P(params...))
	if err != nil {
		c.t.Fatalf("%s %v: %v", method, params, err)
	}
	return result
}

// Fails calls a method that must fail with a code and a reason.
func (c *Client) Fails(code wire.Code, reason, method string, params ...any) *wire.Error {
	c.t.Helper()
	result, err := c.Call(c.t.Context(), method, P(params...))
	return Refused(c.t, fmt.Sprintf("%s %v: %v", method, params, result), err, code, reason)
}

// Refused fails the test unless an error is the daemon's, with a code and a reason.
func Refused(t testing.TB, what string, err error, code wire.Code, reason string) *wire.Error {
	t.Helper()
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != code || Detail(e, "reason") != reason {
		t.Fatalf("%s: %v, want %s (%s)", what, err, code, reason)
	}
	return e
}

// Detail returns a detail of an error, or nil.
func Detail(e *wire.Error, key string) any {
	for _, d := range e.Details {
		if d.Key == key {
			return d.Value
		}
	}
	return nil
}

// Field returns an entry of a result that is a map.
func Field(t testing.TB, result any, key string) any {
	t.Helper()
	m, ok := result.(map[string]any)
	if !ok {
		t.Fatalf("%v is no map", result)
	}
	return m[key]
}

// Redis is a client of the Redis protocol.
type Redis struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

// Redis connects to the daemon's endpoint, which is on DIR/resp, as a user whose password is the name; an empty one is nobody.
func (d *Daemon) Redis(user string) *Redis {
	d.T.Helper()
	nc, err := net.Dial("unix", d.Path("resp"))
	if err != nil {
		d.T.Fatal(err)
	}
	d.T.Cleanup(func() { nc.Close() })
	c := &Redis{nc, d.T, bufio.NewReader(nc)}
	if user != "" {
		if reply := c.Do("AUTH", user, user); reply != "+OK" {
			d.T.Fatalf("AUTH %s: %s", user, reply)
		}
	}
	return c
}

// Command writes a command as clients do.
func Command(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

// Do sends a command and returns its reply in words: a line as it is, a string without its header, a list in brackets.
func (c *Redis) Do(args ...string) string {
	c.t.Helper()
	c.SetDeadline(time.Now().Add(Patience))
	if _, err := io.WriteString(c, Command(args...)); err != nil {
		c.t.Fatalf("%v: %v", args, err)
	}
	reply, err := c.Reply()
	if err != nil {
		c.t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// Reply reads a reply.
func (c *Redis) Reply() (string, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	n, _ := strconv.Atoi(line[1:])
	switch {
	case line[0] == '$' && n >= 0:
		b := make([]byte, n+2)
		_, err := io.ReadFull(c.r, b)
		return string(b[:n]), err
	case line[0] == '*':
		var elements []string
		for range n {
			e, err := c.Reply()
			if err != nil {
				return "", err
			}
			elements = append(elements, e)
		}
		return "[" + strings.Join(elements, " ") + "]", nil
	}
	return line, nil
}
