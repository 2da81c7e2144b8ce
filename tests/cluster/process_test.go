package cluster

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

// patience is how long a test waits for what should happen soon. The machine may be busy.
const patience = 60 * time.Second

// process is a child in the foreground whose output goes to a file.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it is over
}

func start(log, program string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = out, out, append(os.Environ(), "PHP_INI_SCAN_DIR=")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // should the tests themselves be killed
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s os.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(err) // a child of ours can always be signalled
	}
}

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// end asks the process to end, and kills it when it does not. It returns its exit code.
func (p *process) end() int {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.kill()
	}
	return p.cmd.ProcessState.ExitCode()
}

// eventually waits for a condition, which says what it saw. It fails the test when that takes longer than the limit.
func eventually(t testing.TB, limit time.Duration, what string, condition func() (holds bool, seen string)) {
	t.Helper()
	deadline := time.After(limit)
	look := time.NewTicker(20 * time.Millisecond)
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

// tail returns the end of a log.
func tail(log string) string {
	const shown = 40
	content, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-shown):], "\n")
}
