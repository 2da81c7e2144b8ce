package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a child in the foreground whose output goes to a file.
type process struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{} // closed when it is over
	err   error         // how it ended; valid when ended is closed
}

// start runs a program. The caller ends it.
func start(log string, env []string, program string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{cmd: exec.Command(program, args...), log: log, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = out, out, env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // should the tests themselves be killed
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s os.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(err) // a child of ours can always be signalled
	}
}

// wait waits until the process has ended and returns its exit status.
func (p *process) wait(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		t.Fatalf("%s is still running after %s", p.cmd.Path, limit)
		return -1
	}
}

// end asks the process to end, and kills it when it does not.
func (p *process) end() {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
}

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// tail returns the end of the log.
func tail(log string) string {
	const shown = 60
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
	look := time.NewTicker(2 * time.Millisecond)
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

// check fails the test with the message unless the condition holds.
func check(t *testing.T, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Fatalf(format, args...)
	}
}
