package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// lockRun is a command under a lock.
type lockRun struct {
	hold
	wait  time.Duration
	grace time.Duration
}

func newLockRun() *cobra.Command {
	var r lockRun
	cmd := &cobra.Command{
		Use:   "run NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding a lock",
		Long: `Run a command while holding a lock that no other process of any client of the daemon holds.

The command has our standard input, output and error, and in its environment COATCHECK_LOCK, the lock's name, and
COATCHECK_FENCE, a number that grows with each grant: a database that compares it refuses what a former holder writes.
INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed to the command, but for those that the terminal has sent to both.

The lock is renewed while the command runs, however long that is, and is free at once when this process dies, even by
SIGKILL; the command then gets SIGTERM. When the lock is lost (released by force, or the daemon does not answer for a whole
lease, or has forgotten the lock in a restart), the command gets SIGTERM, and SIGKILL when it is still there after --grace.
Without a controlling terminal, as under cron, the command has a process group of its own and these two reach all of it.

Exits with the command's code, or with 128 and the number of the signal that it died of. Codes of our own:

   64  the command line is wrong           75  another holds the lock: nothing was started
   69  the daemon cannot be reached        76  the lock was lost before the command ended
   70  a fault of the daemon              126  the command cannot be executed
   74  the daemon did not answer          127  there is no such command
   77  the daemon refused the lock (memory is full)`,
		Example: `  coatcheck lock run nightly -- /usr/local/bin/nightly --all
  coatcheck lock run deploy --wait 10m -- sh -c 'exec deploy --fence "$COATCHECK_FENCE"'`,
		Args:              r.checkArgs,
		ValidArgsFunction: r.completeLock,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.name, r.token, r.script = args[0], newToken(), args[1]
			return r.run(cmd, args[1:])
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exitError{exitRunUsage, err} })
	flags := cmd.Flags()
	r.addTo(flags)
	flags.StringVar(&r.bucket, "bucket", "", "`NAME` of the bucket that the lock is in")
	flags.DurationVar(&r.lease, "lease", 30*time.Second, "`TIME` after which the lock is free if nobody can renew it, as when this machine stops")
	flags.DurationVar(&r.wait, "wait", 0, "longest `TIME` to wait for the lock")
	flags.BoolVar(&r.shared, "shared", false, "hold it together with others that say --shared")
	flags.DurationVar(&r.grace, "grace", 10*time.Second, "`TIME` that the command has to end when the lock is lost")
	return cmd
}

// minRunLease is the shortest lease: renewals must find the time to come through.
const minRunLease = 100 * time.Millisecond

func (r *lockRun) checkArgs(cmd *cobra.Command, args []string) error {
	var wrong string
	switch {
	case cmd.ArgsLenAtDash() != 1:
		wrong = "give the lock's name, then --, then the command: coatcheck lock run NAME -- COMMAND"
	case len(args) < 2:
		wrong = "there is no command after --"
	case args[0] == "":
		wrong = "the lock's name is empty"
	case r.lease < minRunLease:
		wrong = fmt.Sprintf("--lease is %s; the least is %s", r.lease, minRunLease)
	case r.wait < 0 || r.grace < 0:
		wrong = "--wait and --grace cannot be negative"
	default:
		return nil
	}
	return &exitError{exitRunUsage, errors.New(wrong)}
}

// run takes the lock, runs the command and gives the lock back.
func (r *lockRun) run(cmd *cobra.Command, command []string) error {
	defer r.close()
	if err := r.acquire(cmd.Context(), r.wait); err != nil {
		return err
	}
	// The kernel tells a child of its parent's death when the thread that started it ends.
	runtime.LockOSThread()
	c, err := r.start(cmd, command)
	if err != nil {
		return err
	}
	defer c.close()
	lost := r.attend(cmd, c)
	if lost == nil && !r.release(cmd.Context()) {
		lost = errNotHeld
	}
	if lost != nil {
		return &exitError{exitLost, fmt.Errorf("lock %s was lost before the command ended: %w", shown(r.name), lost)}
	}
	if code := c.exitCode(); code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// attend waits until the command has ended, and meanwhile passes signals on and keeps the lock. It returns how the lock was
// lost, if it was.
func (r *lockRun) attend(cmd *cobra.Command, c *child) (lost error) {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	kept := make(chan error, 1)
	go func() { kept <- r.keep(ctx) }()
	var kill <-chan time.Time
	for {
		select {
		case s := <-c.signals:
			c.pass(s)
		case lost = <-kept:
			kept = nil
			fmt.Fprintf(cmd.ErrOrStderr(), "coatcheck: lock %s is lost: the command gets SIGTERM, and SIGKILL in %s\n", shown(r.name), r.grace)
			c.end(syscall.SIGTERM)
			kill = time.After(r.grace)
		case <-kill:
			c.end(syscall.SIGKILL)
		case <-c.ended:
			cancel()
			if lost != nil {
				c.endRest(kill)
				return lost
			}
			return <-kept
		}
	}
}

// child is the command that runs under the lock.
type child struct {
	cmd     *exec.Cmd
	group   bool // it has a process group of its own
	signals chan os.Signal
	ended   chan struct{} // closed when it is over
	tty     *os.File      // the controlling terminal; nil: there is none
}

// passed are the signals that are passed to the command.
var passed = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

func (r *lockRun) start(cmd *cobra.Command, command []string) (*child, error) {
	c := &child{
		cmd:     exec.Command(command[0], command[1:]...),
		signals: make(chan os.Signal, len(passed)),
		ended:   make(chan struct{}),
	}
	c.tty, _ = os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0)
	c.group = c.tty == nil
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	c.cmd.Env = append(os.Environ(), "COATCHECK_LOCK="+r.name, "COATCHECK_FENCE="+strconv.FormatUint(r.fence, 10))
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: c.group}
	for _, s := range passed {
		if !signal.Ignored(s) { // what is ignored, as by nohup, the command ignores too
			signal.Notify(c.signals, s)
		}
	}
	if err := c.cmd.Start(); err != nil {
		c.close()
		return nil, notStarted(command[0], err)
	}
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait() // what it returns is in ProcessState
	}()
	return c, nil
}

func notStarted(command string, err error) error {
	code := exitNotExecutable
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNotFound
	}
	return &exitError{code, fmt.Errorf("cannot run %s: %w", shown(command), err)}
}

// pass passes a signal on, unless the terminal has sent it to the command already.
func (c *child) pass(s os.Signal) {
	switch s {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH:
		if c.inForeground() {
			return
		}
	}
	_ = c.cmd.Process.Signal(s) // it may have ended; then there is nobody to tell
}

// inForeground says whether the terminal sends its signals to our process group, and so to the command.
func (c *child) inForeground() bool {
	if c.tty == nil {
		return false
	}
	group, err := unix.IoctlGetInt(int(c.tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// end sends a signal that is meant to end the command, and all it has started when it has a group of its own.
func (c *child) end(s syscall.Signal) {
	if c.group {
		_ = syscall.Kill(-c.cmd.Process.Pid, s) // there may be none left
		return
	}
	_ = c.cmd.Process.Signal(s) // it may have ended
}

// endRest waits until nothing is left of the command's group, and kills what is when time is up.
func (c *child) endRest(timeUp <-chan time.Time) {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for c.group && syscall.Kill(-c.cmd.Process.Pid, 0) == nil {
		select {
		case <-look.C:
		case <-timeUp:
			c.end(syscall.SIGKILL)
			return
		}
	}
}

// exitCode returns the code with which to exit for the command, as a shell does.
func (c *child) exitCode() int {
	status := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return exitSignalled + int(status.Signal())
	}
	return status.ExitStatus()
}

func (c *child) close() {
	signal.Stop(c.signals)
	if c.tty != nil {
		c.tty.Close()
	}
}
