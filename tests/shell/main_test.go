// Package shell shows what the operator's commands do, with the real binary on both sides: the daemon and the command,
// their output and their exit codes.
package shell

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// program is the built binary.
var program string

func TestMain(m *testing.M) {
	if os.Getenv("COATCHECK_TEST_CHILD") != "" {
		child()
		return
	}
	// Under nohup, or in the background of a script, some signals come ignored, and the programs that the tests start would inherit
	// that. What this process catches is back at its default in them.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "coatcheck-shell.")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "coatcheck")
	build := exec.Command("go", "build", "-o", program, "../../sidecar/cmd/coatcheck")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the binary: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// child is a command under a lock: this test binary, started anew. It says "ready", then the number of each signal that it
// gets, and ends at the end of its input. SIGPIPE and those of the runtime are left alone.
func child() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH)
	over := make(chan struct{})
	go func() {
		defer close(over)
		bufio.NewReader(os.Stdin).ReadString(0)
	}()
	fmt.Println("ready", os.Getpid())
	for {
		select {
		case s := <-signals:
			fmt.Println("signal", int(s.(syscall.Signal)))
		case <-over:
			return
		}
	}
}

// self returns the command line of child.
func self(t *testing.T) []string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"env", "COATCHECK_TEST_CHILD=1", path}
}

// house is a daemon with its socket and a directory for what the commands write.
type house struct {
	t      *testing.T
	dir    string
	socket string
	daemon *exec.Cmd
	log    lockedBuffer

	environment []string // of the daemon, beside ours
}

// open starts a daemon, with more variables in its environment. It ends with the test.
func open(t *testing.T, environment ...string) *house {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(program), "") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, dir: dir, socket: filepath.Join(dir, "s"), environment: environment}
	h.start()
	t.Cleanup(func() {
		h.daemon.Process.Signal(syscall.SIGCONT)
		h.daemon.Process.Signal(syscall.SIGTERM)
		h.daemon.Wait()
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", h.log.String())
		}
		os.RemoveAll(dir)
	})
	return h
}

// start starts the daemon and waits until it answers.
func (h *house) start() {
	h.t.Helper()
	h.daemon = exec.Command(program, "serve", "--socket", h.socket)
	h.daemon.Env = append(append(h.env(), "COATCHECK_DRAIN_TIMEOUT=100ms"), h.environment...)
	h.daemon.Stderr = &h.log
	h.daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // should the tests themselves be killed
	if err := h.daemon.Start(); err != nil {
		h.t.Fatal(err)
	}
	eventually(h.t, "the daemon answers", func() (bool, string) {
		r := h.run("ping")
		return r.code == 0, r.String()
	})
}

// stop ends the daemon with a signal and waits for its end.
func (h *house) stop(s syscall.Signal) {
	h.t.Helper()
	if err := h.daemon.Process.Signal(s); err != nil {
		h.t.Fatal(err)
	}
	h.daemon.Wait()
}

// pause makes the daemon stand still, resume lets it go on.
func (h *house) pause()  { h.daemon.Process.Signal(syscall.SIGSTOP) }
func (h *house) resume() { h.daemon.Process.Signal(syscall.SIGCONT) }

// env returns the environment of the commands: ours without settings, and the socket.
func (h *house) env() []string {
	env := []string{"COATCHECK_SOCKET=" + h.socket}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); name == "PATH" {
			variable = "PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH")
		} else if strings.HasPrefix(name, "COATCHECK_") {
			continue
		}
		env = append(env, variable)
	}
	return env
}

// result is what a command did.
type result struct {
	out, err string
	code     int
}

func (r result) String() string { return fmt.Sprintf("exit %d, out %q, err %q", r.code, r.out, r.err) }

func (h *house) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Dir = h.env(), h.dir
	return cmd
}

// run runs a command of coatcheck.
func (h *house) run(args ...string) result {
	h.t.Helper()
	return h.finish(h.command(args...))
}

// runWith runs a command of coatcheck with an input.
func (h *house) runWith(input string, args ...string) result {
	h.t.Helper()
	cmd := h.command(args...)
	cmd.Stdin = strings.NewReader(input)
	return h.finish(cmd)
}

// bash runs a line of bash, with coatcheck on its PATH.
func (h *house) bash(line string) result {
	h.t.Helper()
	cmd := exec.Command("bash", "-c", line)
	cmd.Env, cmd.Dir = h.env(), h.dir
	return h.finish(cmd)
}

func (h *house) finish(cmd *exec.Cmd) result {
	h.t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	stop := time.AfterFunc(limit, func() { cmd.Process.Kill() })
	defer stop.Stop()
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		h.t.Fatal(err)
	}
	return result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

// expect fails the test unless the command exits with the code and prints exactly this.
func (h *house) expect(code int, out string, args ...string) result {
	h.t.Helper()
	r := h.run(args...)
	h.check(r, code, out, args)
	return r
}

func (h *house) check(r result, code int, out string, what any) {
	h.t.Helper()
	if r.code != code || r.out != out {
		h.t.Fatalf("%v: %s; want exit %d, out %q", what, r, code, out)
	}
}

// ask sends one request of the client protocol.
func (h *house) ask(method string, params wire.Pairs) any {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := h.dial()
	defer c.Close()
	answer, err := c.Call(ctx, method, params)
	if err != nil {
		h.t.Fatal(err)
	}
	return answer
}

func (h *house) dial() *client.Client {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, err := client.Dial(ctx, h.socket, "shell-test")
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// limit is how long anything may take.
const limit = 20 * time.Second

// eventually waits for a condition, which says what it saw.
func eventually(t *testing.T, what string, condition func() (holds bool, seen string)) {
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

// started is a command that runs while the test goes on.
type started struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    interface{ Close() error }
	lines chan string // of its output; closed at its end
	err   lockedBuffer
}

// begin starts a command of coatcheck.
func (h *house) begin(args ...string) *started { return h.beginCommand(h.command(args...)) }

func (h *house) beginCommand(cmd *exec.Cmd) *started {
	h.t.Helper()
	s := &started{t: h.t, cmd: cmd, lines: make(chan string, 1024)}
	in, err := cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	s.in = in
	out, w, err := os.Pipe() // not StdoutPipe, whose end Wait does not wait for
	if err != nil {
		h.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, &s.err
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	w.Close()
	go func() {
		defer close(s.lines)
		defer out.Close()
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
	}()
	h.t.Cleanup(func() {
		s.in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return s
}

// line returns the next line of the output.
func (s *started) line() string {
	s.t.Helper()
	select {
	case line, ok := <-s.lines:
		if !ok {
			s.t.Fatalf("%v ended its output; it said: %s", s.cmd.Args, s.err.String())
		}
		return line
	case <-time.After(limit):
		s.t.Fatalf("%v prints nothing more; it said: %s", s.cmd.Args, s.err.String())
		return ""
	}
}

// expect fails the test unless the next line is this one.
func (s *started) expect(line string) {
	s.t.Helper()
	if got := s.line(); got != line {
		s.t.Fatalf("%v printed %q, want %q", s.cmd.Args, got, line)
	}
}

// silent waits for the end of the output, which must bring no further line.
func (s *started) silent() {
	s.t.Helper()
	select {
	case line, more := <-s.lines:
		if more {
			s.t.Fatalf("%v printed %q, want nothing more", s.cmd.Args, line)
		}
	case <-time.After(limit):
		s.t.Fatalf("the output of %v does not end", s.cmd.Args)
	}
}

func (s *started) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// code waits for the end and returns the exit code; -1 for a death by signal.
func (s *started) code() int {
	s.t.Helper()
	stop := time.AfterFunc(limit, func() { s.cmd.Process.Kill() })
	defer stop.Stop()
	err := s.cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		s.t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode()
}
