package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// holdLock runs child under a lock and returns when it is at work, with its pid.
func (h *house) holdLock(args ...string) (s *started, pid int) {
	h.t.Helper()
	return h.holdWith(self(h.t), args...)
}

func (h *house) holdWith(command []string, args ...string) (s *started, pid int) {
	h.t.Helper()
	s = h.begin(append(append(append([]string{"lock", "run"}, args...), "--"), command...)...)
	if _, err := fmt.Sscanf(s.line(), "ready %d", &pid); err != nil {
		h.t.Fatal(err)
	}
	return s, pid
}

func TestTheCommandGetsNameAndFence(t *testing.T) {
	h := open(t)
	last := uint64(0)
	for range 3 {
		r := h.run("lock", "run", "nightly", "--", "sh", "-c", "echo $COATCHECK_LOCK $COATCHECK_FENCE")
		name, number, _ := strings.Cut(strings.TrimSpace(r.out), " ")
		fence, err := strconv.ParseUint(number, 10, 63)
		if r.code != 0 || name != "nightly" || err != nil || fence <= last {
			t.Fatalf("%s; want the name nightly and a fence above %d", r, last)
		}
		last = fence
	}
}

func TestTheStreamsAreTheCommands(t *testing.T) {
	h := open(t)
	r := h.runWith("in\x00\n", "lock", "run", "l", "--", "sh", "-c", "cat; echo err >&2")
	if r.code != 0 || r.out != "in\x00\n" || r.err != "err\n" {
		t.Fatal(r)
	}
}

func TestTheExitCodeIsTheCommands(t *testing.T) {
	h := open(t)
	for _, c := range []struct {
		command []string
		code    int
	}{
		{[]string{"true"}, 0},
		{[]string{"sh", "-c", "exit 3"}, 3},
		{[]string{"sh", "-c", "exit 255"}, 255},
		{[]string{"sh", "-c", "kill -KILL $$"}, 128 + int(syscall.SIGKILL)},
		{[]string{"sh", "-c", "kill -TERM $$"}, 128 + int(syscall.SIGTERM)},
		{[]string{"./no-such-command"}, 127},
		{[]string{"no-such-command"}, 127},
		{[]string{h.dir}, 126},
	} {
		r := h.run(append([]string{"lock", "run", "l", "--"}, c.command...)...)
		if r.code != c.code {
			t.Errorf("%v: %s; want exit %d", c.command, r, c.code)
		}
		h.expect(3, "false\n", "locks", "release", "l", "--force") // nothing is left behind
	}
}

func TestWrongCommandLinesOfLockRun(t *testing.T) {
	h := open(t)
	for _, args := range [][]string{
		{},
		{"l"},
		{"l", "true"},
		{"l", "--"},
		{"--", "l", "true"},
		{"l", "m", "--", "true"},
		{"", "--", "true"},
		{"l", "--lease", "1ms", "--", "true"},
		{"l", "--wait", "-1s", "--", "true"},
		{"l", "--no-such-flag", "--", "true"},
	} {
		h.expect(64, "", append([]string{"lock", "run"}, args...)...)
	}
	h.expect(69, "", "lock", "run", "l", "--socket", h.dir+"/nobody", "--", "true")
}

func TestATakenLockIsToldWithItsHolder(t *testing.T) {
	h := open(t)
	s, _ := h.holdLock("nightly")
	r := h.expect(75, "", "lock", "run", "nightly", "--", "echo", "started")
	if want := fmt.Sprintf("coatcheck: lock nightly is taken: process %d (coatcheck/dev env) has held it for ", s.cmd.Process.Pid); !strings.HasPrefix(r.err, want) {
		t.Errorf("the error is %q, want it to begin with %q", r.err, want)
	}
	h.expect(0, "started\n", "lock", "run", "nightly", "--bucket", "other", "--", "echo", "started")
	s.in.Close()
	if code := s.code(); code != 0 {
		t.Errorf("the holder exited with %d, want 0", code)
	}
	h.expect(0, "started\n", "lock", "run", "nightly", "--", "echo", "started")
}

func TestWaitingForALock(t *testing.T) {
	for _, c := range []struct{ name, maxWait string }{
		{"the daemon waits", "1m"},
		{"the daemon lets nobody wait so long", "20ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open(t, "COATCHECK_LOCK_MAX_WAIT="+c.maxWait)
			holder, _ := h.holdLock("l")
			h.expect(75, "", "lock", "run", "l", "--wait", "60ms", "--", "true")
			waiter := h.begin("lock", "run", "l", "--wait", "1h", "--", "echo", "granted")
			eventually(t, "somebody waits for the lock", func() (bool, string) {
				r := h.run("locks", "--json")
				return strings.Contains(r.out, `"waiters":1`), r.String()
			})
			holder.in.Close()
			waiter.expect("granted")
			if code := waiter.code(); code != 0 {
				t.Fatalf("the waiter exited with %d, want 0", code)
			}
		})
	}
}

func TestSharedHolders(t *testing.T) {
	h := open(t)
	h.holdLock("l", "--shared")
	h.expect(0, "read\n", "lock", "run", "l", "--shared", "--", "echo", "read")
	h.expect(75, "", "lock", "run", "l", "--", "echo", "write")
}

// The promise "a dead holder frees at once", for lock run.
func TestADeadHolderFreesAtOnce(t *testing.T) {
	h := open(t)
	s, pid := h.holdLock("l", "--lease", "1h")
	s.signal(syscall.SIGKILL)
	eventually(t, "the lock is free, an hour before its lease ends", func() (bool, string) {
		r := h.run("lock", "run", "l", "--", "true")
		return r.code == 0, r.String()
	})
	s.expect("signal 15") // the command does not go on as if it held the lock
	s.in.Close()
	for line := range s.lines { // the kernel may send it for more than one of the dead threads
		if line != "signal 15" {
			t.Fatalf("the command printed %q, want nothing but its signal", line)
		}
	}
	eventually(t, "the command has gone", func() (bool, string) {
		err := syscall.Kill(pid, 0)
		return err == syscall.ESRCH || zombie(pid), fmt.Sprint(err)
	})
}

// zombie says whether a process has ended and nobody has asked how: in some containers nobody does.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, found := strings.Cut(string(stat), ") ")
	return err == nil && found && strings.HasPrefix(state, "Z")
}

// Two hosts with two crontab lines each start the same job at the same time, fifty times.
func TestOfRacingCronsOneRuns(t *testing.T) {
	h := open(t)
	for round := range 50 {
		var racers [4]*started
		for i := range racers {
			racers[i] = h.begin(append([]string{"lock", "run", "cron", "--"}, self(t)...)...)
		}
		var winners []*started
		for _, r := range racers {
			// The winner holds the lock until the others have been told that it is taken.
			if line, started := <-r.lines; started {
				if !strings.HasPrefix(line, "ready ") {
					t.Fatalf("round %d: a command printed %q", round, line)
				}
				winners = append(winners, r)
			} else if code := r.code(); code != 75 {
				t.Fatalf("round %d: a loser exited with %d, want 75; it said %s", round, code, r.err.String())
			}
		}
		if len(winners) != 1 {
			t.Fatalf("round %d: %d commands run, want 1", round, len(winners))
		}
		winners[0].in.Close()
		if code := winners[0].code(); code != 0 {
			t.Fatalf("round %d: the winner exited with %d", round, code)
		}
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	h := open(t)
	s, _ := h.holdLock("l")
	for _, sig := range []syscall.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	} {
		s.signal(sig)
		s.expect(fmt.Sprint("signal ", int(sig)))
	}
	h.expect(75, "", "lock", "run", "l", "--", "true")
	s.in.Close()
	if code := s.code(); code != 0 {
		t.Fatalf("exit code %d, want 0", code)
	}
	s.silent()
}

// What nohup has the shell ignore stays ignored.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	h := open(t)
	r := h.bash(`trap "" HUP; coatcheck lock run l -- sh -c 'kill -HUP $$ $PPID; echo alive'`)
	h.check(r, 0, "alive\n", "a command that ignores HUP")
}

func TestALostLockEndsTheCommand(t *testing.T) {
	h := open(t)
	s, _ := h.holdLock("l")
	h.expect(0, "true\n", "locks", "release", "l", "--force")
	next, _ := h.holdLock("l") // the next holder does not wait for the end of the last
	s.expect("signal 15")
	s.in.Close()
	if code := s.code(); code != 76 {
		t.Fatalf("exit code %d, want 76", code)
	}
	if want := "coatcheck: lock l was lost before the command ended: it was released by force, or its lease ran out\n"; !strings.HasSuffix(s.err.String(), want) {
		t.Fatalf("the error is %q, want it to end with %q", s.err.String(), want)
	}
	next.in.Close()
	if code := next.code(); code != 0 {
		t.Fatalf("the next holder exited with %d, want 0", code)
	}
}

// A lock that was lost in the command's last moments was lost all the same.
func TestALossIsToldAlsoAtTheEnd(t *testing.T) {
	h := open(t)
	r := h.run("lock", "run", "l", "--", "sh", "-c", "coatcheck locks release l --force")
	h.check(r, 76, "true\n", "a command that loses its lock and ends")
}

func TestACommandThatStaysIsKilledWithWhatItStarted(t *testing.T) {
	h := open(t)
	helper := filepath.Join(h.dir, "helper")
	script := `trap "" TERM; (echo $BASHPID > ` + helper + `; exec sleep 1000) & echo ready $$; while :; do wait; done`
	s, pid := h.holdWith([]string{"bash", "-c", script}, "l", "--grace", "50ms")
	eventually(t, "the helper runs", func() (bool, string) {
		content, err := os.ReadFile(helper)
		return strings.HasSuffix(string(content), "\n"), fmt.Sprint(err)
	})
	h.expect(0, "true\n", "locks", "release", "l", "--force")
	if code := s.code(); code != 76 {
		t.Fatalf("exit code %d, want 76", code)
	}
	content, err := os.ReadFile(helper)
	if err != nil {
		t.Fatal(err)
	}
	helperPID, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{pid, helperPID} {
		eventually(t, "the command and its helper have gone", func() (bool, string) {
			err := syscall.Kill(pid, 0)
			return err == syscall.ESRCH || zombie(pid), fmt.Sprint(pid, err)
		})
	}
}

func TestTheDaemonsEndIsALoss(t *testing.T) {
	h := open(t)
	s, _ := h.holdLock("l", "--lease", "1s")
	h.stop(syscall.SIGKILL)
	s.expect("signal 15")
	s.in.Close()
	if code := s.code(); code != 76 {
		t.Fatalf("exit code %d, want 76", code)
	}
}

func TestADaemonThatForgotTheLockIsALoss(t *testing.T) {
	h := open(t)
	s, _ := h.holdLock("l", "--lease", "1h")
	h.stop(syscall.SIGTERM)
	h.start()
	s.expect("signal 15")
	s.in.Close()
	if code := s.code(); code != 76 {
		t.Fatalf("exit code %d, want 76", code)
	}
}

func TestADaemonThatComesBackStillHasTheLock(t *testing.T) {
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(end.String(), func(t *testing.T) {
			h := open(t)
			h.stop(syscall.SIGTERM)
			h.environment = []string{"COATCHECK_DATA=" + filepath.Join(h.dir, "data")}
			h.start()
			s, _ := h.holdLock("l", "--lease", "1h")
			fence := h.locks()[0].Holders[0].Fence
			h.stop(end)
			h.start()
			eventually(t, "the command has taken its lock up again", func() (bool, string) {
				held := h.locks()
				return len(held) == 1 && held[0].Holders[0].Fence == fence && h.connections() > 1, fmt.Sprint(held)
			})
			h.expect(75, "", "lock", "run", "l", "--", "true")
			s.signal(syscall.SIGUSR1)
			s.expect("signal 10") // and none before it
			s.signal(syscall.SIGKILL)
			eventually(t, "the lock is free, an hour before its lease ends", func() (bool, string) {
				return len(h.locks()) == 0, fmt.Sprint(h.locks())
			})
		})
	}
}

// A daemon that does not answer for a whole lease may have given the lock to another by then, had it woken up.
func TestADaemonThatStandsStillIsALoss(t *testing.T) {
	h := open(t)
	s, _ := h.holdLock("l", "--lease", "1s")
	h.pause()
	s.expect("signal 15")
	h.resume()
	s.in.Close()
	if code := s.code(); code != 76 {
		t.Fatalf("exit code %d, want 76", code)
	}
}

// lock.max_hold ends what the daemon renews by itself, not what a living command renews.
func TestALongCommandOutlivesTheLongestHold(t *testing.T) {
	h := open(t, "COATCHECK_LOCK_MAX_HOLD=2s")
	s, _ := h.holdLock("l", "--lease", "2s")
	eventually(t, "the lock has been held for twice the longest hold", func() (bool, string) {
		locks := h.locks()
		if len(locks) != 1 || len(locks[0].Holders) != 1 {
			t.Fatalf("the lock is lost: %v", locks)
		}
		return locks[0].Holders[0].HeldMs > 4000, fmt.Sprint(locks)
	})
	s.signal(syscall.SIGKILL)
	eventually(t, "the lock is free", func() (bool, string) { return len(h.locks()) == 0, fmt.Sprint(h.locks()) })
}
