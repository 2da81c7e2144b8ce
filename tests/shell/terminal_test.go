package shell

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal: the side of the person and the path of the other.
func terminal(t *testing.T) (*os.File, string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	return master, fmt.Sprintf("/dev/pts/%d", n)
}

// The terminal sends Ctrl-C to the whole foreground: if it were passed on as well, the command would get it twice, and
// many take the second for "stop at once".
func TestTheTerminalsSignalsArriveOnce(t *testing.T) {
	h := open(t)
	keyboard, path := terminal(t)
	tty, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	cmd := h.command(append([]string{"lock", "run", "l", "--"}, self(t)...)...)
	cmd.ExtraFiles = []*os.File{tty}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
	s := h.beginCommand(cmd)
	if line := s.line(); !strings.HasPrefix(line, "ready ") {
		t.Fatalf("the command printed %q", line)
	}
	if _, err := keyboard.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	s.expect("signal 2")
	s.signal(syscall.SIGTERM) // does not come from the terminal, and after it a second Ctrl-C would have come
	s.expect("signal 15")
	s.in.Close()
	if code := s.code(); code != 0 {
		t.Fatalf("exit code %d, want 0", code)
	}
	s.silent()
}
