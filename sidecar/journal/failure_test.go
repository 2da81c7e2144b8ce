package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// faultyConfig returns settings under which the disk fails on demand.
func faultyConfig(t *testing.T, f *faults) Config {
	log, _ := quiet()
	return Config{Dir: t.TempDir(), Values: true, Log: log, create: func(path string) (file, error) {
		real, err := createFile(path)
		return &faulty{real, f}, err
	}}
}

// recovers ticks until the journal can be written.
func recovers(t *testing.T, j *Journal) {
	t.Helper()
	for range longestPause + 2 {
		if tick(j); j.Ready() == nil {
			return
		}
	}
	t.Fatalf("it does not recover: %v", j.Ready())
}

// TestAnFsyncThatFailsDuringASnapshotIsNotForgotten: the snapshot stands for what was before it, not for the segment
// that failed meanwhile.
func TestAnFsyncThatFailsDuringASnapshotIsNotForgotten(t *testing.T) {
	f := &faults{}
	cfg := faultyConfig(t, f)
	create := cfg.create
	var j *Journal
	cfg.create = func(path string) (file, error) {
		if strings.HasSuffix(path, ".new") {
			f.set(nil, syscall.EIO)
			j.sync()
			f.set(nil, nil)
		}
		return create(path)
	}
	s, opened := open(t, cfg)
	j = opened
	set(t, s, j, "k", "1")
	if err := j.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if err := j.Ready(); !errors.Is(err, ErrNotWritable) || !errors.Is(err, errFsync) {
		t.Errorf("the failure is forgotten: %v", err)
	}
	crash(j)
}

// TestAnFsyncThatFailsWhenASegmentIsFinishedIsNotForgotten: a later fsync of it that succeeds says nothing.
func TestAnFsyncThatFailsWhenASegmentIsFinishedIsNotForgotten(t *testing.T) {
	f := &faults{}
	s, j := open(t, faultyConfig(t, f))
	defer j.Close()
	set(t, s, j, "k", "1")
	f.set(nil, syscall.EIO)
	if err := j.Snapshot(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("the snapshot: %v", err)
	}
	f.set(nil, nil)
	if err := j.Ready(); !errors.Is(err, errFsync) {
		t.Errorf("the failure is forgotten: %v", err)
	}
	recovers(t, j)
	if c, err := list(j.cfg.Dir, nil); err != nil || len(c.snapshots) != 1 {
		t.Errorf("it recovered without a snapshot: %v", err)
	}
}

// TestSnapshotsThatFailLeaveNothingBehind: neither files nor holes in the numbers, however often they are tried.
func TestSnapshotsThatFailLeaveNothingBehind(t *testing.T) {
	f := &faults{}
	cfg := faultyConfig(t, f)
	create := cfg.create
	full := true
	cfg.create = func(path string) (file, error) {
		if full && strings.HasSuffix(path, ".new") {
			return nil, syscall.ENOSPC
		}
		return create(path)
	}
	s, j := open(t, cfg)
	set(t, s, j, "k", "1")
	f.set(nil, syscall.EIO)
	tick(j) // the fsync fails: from now on only a snapshot helps
	f.set(nil, nil)
	for range 5 * longestPause {
		tick(j)
	}
	if files, err := os.ReadDir(cfg.Dir); err != nil || len(files) > 3 { // LOCK and two segments
		t.Errorf("there are %v: %v", files, err)
	}
	if j.Ready() == nil {
		t.Error("it is ready without a snapshot")
	}
	full = false
	recovers(t, j)
	set(t, s, j, "k", "2")
	crash(j)
	s, j = open(t, Config{Dir: cfg.Dir, Values: true})
	defer j.Close()
	if got := get(s, "k"); got != "2" {
		t.Errorf("k is %s", got)
	}
}

// TestASegmentThatCannotBeBegunLeavesTheOldOneInUse: its end mark is taken off again.
func TestASegmentThatCannotBeBegunLeavesTheOldOneInUse(t *testing.T) {
	f := &faults{}
	cfg := faultyConfig(t, f)
	create := cfg.create
	begun := 0
	cfg.create = func(path string) (file, error) {
		if begun++; begun == 2 {
			return nil, syscall.ENOSPC
		}
		return create(path)
	}
	s, j := open(t, cfg)
	set(t, s, j, "before", "1")
	if err := j.Snapshot(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the snapshot: %v", err)
	}
	set(t, s, j, "after", "1")
	crash(j)
	s, j = open(t, Config{Dir: cfg.Dir, Values: true})
	defer j.Close()
	if get(s, "before") != "1" || get(s, "after") != "1" {
		t.Error("a value did not come back")
	}
}

// TestAFileThatIsMissingIsNoticed: snapshot and segments each, by a check and by a start; only the last segment may have never been begun.
func TestAFileThatIsMissingIsNoticed(t *testing.T) {
	whole := t.TempDir()
	s, j := open(t, Config{Dir: whole, Values: true})
	for i := range 5 {
		set(t, s, j, fmt.Sprint("k", i), "1")
		if i == 1 {
			if err := j.Snapshot(); err != nil {
				t.Fatal(err)
			}
		} else if _, err := j.rotate(); err != nil {
			t.Fatal(err)
		}
	}
	c, err := list(whole, nil)
	if err != nil || len(c.snapshots) != 1 || len(c.segments) < 4 {
		t.Fatalf("there are %+v: %v", c, err)
	}
	crash(j)
	lost := map[string]bool{c.path(snapshotPrefix, c.snapshots[0]): true} // and whether nothing is left to start with
	for _, n := range c.segments[:len(c.segments)-1] {
		lost[c.path(segmentPrefix, n)] = false
	}
	for path, all := range lost {
		dir, name := t.TempDir(), filepath.Base(path)
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if report, err := Check(dir, nil); err != nil || report.Damage == nil || filepath.Base(report.Damage.File) != name {
			t.Errorf("%s: the check says %+v, %v", name, report, err)
		}
		var d *Damage
		log, _ := quiet()
		if err := New(Config{Dir: dir, Values: true, Log: log}, store.New(store.Limits{})).Open(); !errors.As(err, &d) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the start says %v", name, err)
		}
		before, _ := os.ReadDir(dir)
		did, err := Repair(dir, nil)
		if all {
			if after, _ := os.ReadDir(dir); err == nil || !strings.Contains(err.Error(), "cannot be repaired") || len(did) > 0 || len(after) != len(before) {
				t.Errorf("%s: the repair did %v, %v", name, did, err)
			}
			continue
		}
		if err != nil || len(did) == 0 {
			t.Errorf("%s: the repair did %v, %v", name, did, err)
		}
		s, j := open(t, Config{Dir: dir, Values: true})
		if get(s, "k0") != "1" || get(s, "k4") != "(none)" {
			t.Errorf("%s: after the repair k0 is %s, k4 %s", name, get(s, "k0"), get(s, "k4"))
		}
		j.Close()
	}
}

func TestCloseWhileTheDiskFailsSaysSoAndGivesTheDirectoryFree(t *testing.T) {
	f := &faults{}
	cfg := faultyConfig(t, f)
	s, j := open(t, cfg)
	set(t, s, j, "k", "1")
	f.set(syscall.ENOSPC, nil)
	s.Apply(setCommand("k", "2"))
	if err := j.Commit(); !errors.Is(err, ErrNotWritable) {
		t.Fatalf("the commit: %v", err)
	}
	if err := j.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("close: %v", err)
	}
	s.Apply(setCommand("k", "3"))
	if err := j.Commit(); !errors.Is(err, errClosed) {
		t.Errorf("a commit after close: %v", err)
	}
	s, j = open(t, Config{Dir: cfg.Dir, Values: true})
	defer j.Close()
	if got := get(s, "k"); got != "1" {
		t.Errorf("k is %s", got)
	}
}

// TestValuesLeftOutOnceDoNotComeBackOlder: what was kept before journal.values was turned off is not what was acknowledged last.
func TestValuesLeftOutOnceDoNotComeBackOlder(t *testing.T) {
	dir := t.TempDir()
	for i, values := range []bool{true, false, true} {
		s, j := open(t, Config{Dir: dir, Values: values})
		if got := get(s, "k"); got != "(none)" {
			t.Errorf("start %d: k is %s", i, got)
		}
		if i < 2 {
			set(t, s, j, "k", fmt.Sprint(i))
		}
		crash(j)
	}
}

// TestDataThatLooksLikeFramesDoesNotMakeATornEndDamage: whoever may write sessions must not be able to keep a daemon
// from starting.
func TestDataThatLooksLikeFramesDoesNotMakeATornEndDamage(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Values: true}
	s, j := open(t, cfg)
	set(t, s, j, "before", "1")
	forged := bytes.Repeat(plain().appendRecord(nil, []byte("record")), 1000)
	set(t, s, j, "forged", string(forged))
	path := filepath.Join(cfg.Dir, fileName(segmentPrefix, j.seg.number))
	size := j.seg.size
	crash(j)
	if err := os.Truncate(path, size-5); err != nil {
		t.Fatal(err)
	}
	s, j = open(t, cfg)
	defer j.Close()
	if get(s, "before") != "1" || get(s, "forged") != "(none)" {
		t.Error("the torn end was not dropped, or more than that")
	}
}

// TestALastSegmentOfZerosIsTorn: what some file systems leave of a file that was being made when the power went.
func TestALastSegmentOfZerosIsTorn(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Values: true}
	s, j := open(t, cfg)
	set(t, s, j, "k", "1")
	crash(j)
	for _, size := range []int{0, 10, headSize, 4096} {
		s, j = open(t, cfg)
		crash(j)
		if err := os.WriteFile(filepath.Join(cfg.Dir, fileName(segmentPrefix, j.seg.number)), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		s, j = open(t, cfg)
		if get(s, "k") != "1" {
			t.Errorf("%d zeros: k is gone", size)
		}
		crash(j)
	}
}

func TestVeryLargeRecordsAreKept(t *testing.T) {
	for name, k := range map[string]*Keys{"plain": nil, "sealed": keys(t, keyA)} {
		cfg := Config{Dir: t.TempDir(), Values: true, Keys: k}
		s, j := open(t, cfg)
		data := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
		s.Apply(&store.Command{Op: store.OpSessionCommit, Now: now, Key: []byte("sid"), Value: data, TTL: 1000})
		set(t, s, j, "after", "1")
		crash(j)
		s, j = open(t, cfg)
		r := s.Apply(&store.Command{Op: store.OpSessionOpen, Now: now, Key: []byte("sid")})
		if !bytes.Equal(r.Value, data) || get(s, "after") != "1" {
			t.Errorf("%s: it came back with %d bytes", name, len(r.Value))
		}
		if cap(j.pending)+cap(j.spare)+cap(j.seg.frames) > 3*keptBuffer {
			t.Errorf("%s: buffers of %d, %d and %d bytes are kept", name, cap(j.pending), cap(j.spare), cap(j.seg.frames))
		}
		crash(j)
	}
}

// value returns what a metric shows; of several, the sum.
func value(t *testing.T, r prometheus.Gatherer, name string) (sum float64) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		return sum
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestMetricsTellOfAFailingDisk(t *testing.T) {
	f := &faults{}
	cfg := faultyConfig(t, f)
	r := prometheus.NewPedanticRegistry()
	cfg.Metrics = NewMetrics(r)
	s, j := open(t, cfg)
	defer j.Close()
	expect := func(when string, writable, failures float64) {
		t.Helper()
		if got := value(t, r, "coatcheck_journal_writable"); got != writable {
			t.Errorf("%s: coatcheck_journal_writable is %v", when, got)
		}
		if got := value(t, r, "coatcheck_journal_failures_total"); got != failures {
			t.Errorf("%s: %v failures are counted", when, got)
		}
	}
	set(t, s, j, "k", "1")
	expect("before", 1, 0)
	f.set(syscall.ENOSPC, nil)
	s.Apply(setCommand("k", "2"))
	if j.Commit() == nil {
		t.Fatal("the commit succeeded")
	}
	expect("while it fails", 0, 1)
	f.set(nil, nil)
	tick(j)
	expect("after", 1, 1)
	if value(t, r, "coatcheck_journal_written_bytes_total") == 0 || value(t, r, "coatcheck_journal_bytes") == 0 {
		t.Error("no bytes are counted")
	}
}
