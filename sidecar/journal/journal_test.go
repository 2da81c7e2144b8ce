package journal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

const now = 1_800_000_000_000

// quiet returns a logger that writes to the buffer it also returns.
func quiet() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}

// open returns a store with its journal in dir.
func open(t *testing.T, cfg Config) (*store.Store, *Journal) {
	t.Helper()
	s, j := store.New(store.Limits{}), (*Journal)(nil)
	if cfg.Log == nil {
		cfg.Log, _ = quiet()
	}
	j = New(cfg, s)
	if err := j.Open(); err != nil {
		t.Fatal(err)
	}
	return s, j
}

// set stores a value and commits.
func set(t *testing.T, s *store.Store, j *Journal, key, value string) {
	t.Helper()
	s.Apply(setCommand(key, value))
	if err := j.Commit(); err != nil {
		t.Fatal(err)
	}
}

func setCommand(key, value string) *store.Command {
	return &store.Command{Op: store.OpSet, Now: now, Key: []byte(key), Value: []byte(value)}
}

func get(s *store.Store, key string) string {
	r := s.Apply(&store.Command{Op: store.OpGet, Now: now, Key: []byte(key)})
	if !r.Found {
		return "(none)"
	}
	return string(r.Value)
}

// tick lets a tick finish what it began.
func tick(j *Journal) {
	j.Tick()
	j.background.Wait()
}

// crash ends a journal as a kill -9 does: nothing more is written.
func crash(j *Journal) {
	j.background.Wait()
	j.seg.file.Close()
	j.lock.Close()
}

func TestPromise6AcknowledgedMeansKept(t *testing.T) {
	for _, fsync := range []Fsync{EverySec, Always, Never} {
		cfg := Config{Dir: t.TempDir(), Fsync: fsync, Values: true}
		s, j := open(t, cfg)
		set(t, s, j, "k", "1")
		s.Apply(&store.Command{Op: store.OpSessionOpen, Now: now, Key: []byte("sid"), Token: []byte("tok"), Lease: 30_000})
		grant := s.Apply(&store.Command{Op: store.OpLockAcquire, Now: now, Key: []byte("l"), Token: []byte("tok"), Lease: 30_000})
		if err := j.Commit(); err != nil {
			t.Fatal(err)
		}
		crash(j)

		s, j = open(t, cfg)
		if got := get(s, "k"); got != "1" {
			t.Errorf("the value is %s", got)
		}
		if r := s.Apply(&store.Command{Op: store.OpSessionOpen, Now: now + 29_999, Key: []byte("sid"), Token: []byte("other"), Lease: 1}); r.Status != store.Busy {
			t.Errorf("the session's lock is not held until its lease ends: %+v", r)
		}
		again := s.Apply(&store.Command{Op: store.OpLockAcquire, Now: now + 30_000, Key: []byte("l"), Token: []byte("next"), Lease: 1})
		if again.Status != store.OK || again.Fence <= grant.Fence {
			t.Errorf("after the lease: %v with fence %d, not above %d", again.Status, again.Fence, grant.Fence)
		}
		j.Close()
	}
}

// TestCommitsFromManyAreAllKept has many commit at once, and finds all of it again.
func TestCommitsFromManyAreAllKept(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Fsync: Always, Values: true}
	s, j := open(t, cfg)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 50 {
				s.Apply(setCommand(fmt.Sprintf("%d-%d", w, i), "x"))
				if err := j.Commit(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	crash(j)
	s, j = open(t, cfg)
	defer j.Close()
	if n := s.Apply(&store.Command{Op: store.OpStats, Now: now}).Stats.Values; n != 400 {
		t.Errorf("%d of 400 values are there", n)
	}
}

func TestValuesCanBeLeftOut(t *testing.T) {
	cfg := Config{Dir: t.TempDir()}
	s, j := open(t, cfg)
	set(t, s, j, "k", "v")
	s.Apply(&store.Command{Op: store.OpLockAcquire, Now: now, Key: []byte("l"), Token: []byte("t")})
	if err := j.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := j.Snapshot(); err != nil {
		t.Fatal(err)
	}
	crash(j)
	s, j = open(t, cfg)
	defer j.Close()
	st := s.Apply(&store.Command{Op: store.OpStats, Now: now}).Stats
	if st.Values != 0 || st.Locks != 1 {
		t.Errorf("%d values and %d locks are there", st.Values, st.Locks)
	}
}

func TestASecondDaemonIsRefused(t *testing.T) {
	cfg := Config{Dir: t.TempDir()}
	_, j := open(t, cfg)
	cfg.Log, _ = quiet()
	err := New(cfg, store.New(store.Limits{})).Open()
	if err == nil || !strings.Contains(err.Error(), "another daemon uses this directory") {
		t.Errorf("a second one opened: %v", err)
	}
	j.Close()
	_, j = open(t, cfg)
	j.Close()
}

// TestASnapshotReplacesSegmentsWhileServiceGoesOn takes snapshots while others write.
func TestASnapshotReplacesSegmentsWhileServiceGoesOn(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Values: true}
	s, j := open(t, cfg)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				s.Apply(setCommand(fmt.Sprintf("%d-%d", w, i%100), fmt.Sprint(i)))
				if err := j.Commit(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 10 {
		if err := j.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	crash(j)
	c, err := list(cfg.Dir, nil)
	if err != nil || len(c.snapshots) != 1 || len(c.segments) != 1 || c.snapshots[0] != c.segments[0] {
		t.Errorf("left are %v and %v: %v", c.segments, c.snapshots, err)
	}
	s, j = open(t, cfg)
	defer j.Close()
	for w := range 4 {
		for i := range 100 {
			if got, want := get(s, fmt.Sprintf("%d-%d", w, i)), fmt.Sprint(1900+i); got != want {
				t.Fatalf("%d-%d is %s, not %s", w, i, got, want)
			}
		}
	}
}

func TestTickTakesASnapshotWhenTheSegmentsHaveGrown(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Values: true, Grow: 10_000}
	s, j := open(t, cfg)
	defer j.Close()
	for i := range 100 {
		tick(j)
		set(t, s, j, "k", strings.Repeat(fmt.Sprint(i%10), 200))
	}
	c, err := list(cfg.Dir, nil)
	if err != nil || len(c.snapshots) != 1 {
		t.Errorf("there are snapshots %v: %v", c.snapshots, err)
	}
	if segments, _ := c.sizes(); segments > 2*cfg.Grow {
		t.Errorf("the segments have %d bytes", segments)
	}
}

// history writes a value for each step and returns the files, and what a store that has the first n steps holds.
func history(t *testing.T, dir string, steps int, snapshotAt int) {
	t.Helper()
	s, j := open(t, Config{Dir: dir, Values: true})
	for i := range steps {
		if i == snapshotAt {
			if err := j.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
		if i%10 == 9 { // several segments
			if _, err := j.rotate(); err != nil {
				t.Fatal(err)
			}
		}
		set(t, s, j, "step", fmt.Sprint(i))
		set(t, s, j, fmt.Sprint("step", i), "done")
	}
	crash(j)
}

// TestDamageGivesAPrefixOrIsRefused flips and cuts bytes at random: a start either holds exactly the first n steps and
// says that an end was cut off, or refuses with file and offset. What repair leaves starts, with a prefix.
func TestDamageGivesAPrefixOrIsRefused(t *testing.T) {
	const steps = 35
	whole := t.TempDir()
	history(t, whole, steps, 12)
	rnd := rand.New(rand.NewPCG(3, 9))
	refusals, prefixes := 0, 0
	for range 400 {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		what := damage(t, dir, rnd)
		log, lines := quiet()
		s := store.New(store.Limits{})
		j := New(Config{Dir: dir, Values: true, Log: log}, s)
		err := j.Open()
		var d *Damage
		switch {
		case err == nil:
			prefixes++
			n := checkPrefix(t, s, what)
			if n < steps && !strings.Contains(lines.String(), "cut off") && !strings.Contains(what, "boundary") {
				t.Errorf("%s: only %d steps, and nothing said: %s", what, n, lines)
			}
			j.Close()
			continue
		case !errors.As(err, &d) || d.File == "":
			t.Fatalf("%s: refused without a place: %v", what, err)
		}
		refusals++
		if _, err := Repair(dir, nil); err != nil {
			if !strings.Contains(err.Error(), "damaged snapshot") {
				t.Fatalf("%s: repair: %v", what, err)
			}
			continue
		}
		s, j = open(t, Config{Dir: dir, Values: true})
		checkPrefix(t, s, what+", repaired")
		j.Close()
	}
	if refusals < 50 || prefixes < 20 {
		t.Errorf("%d refusals and %d prefixes: the damage was one-sided", refusals, prefixes)
	}
}

// damage does something to one of the files and says what.
func damage(t *testing.T, dir string, rnd *rand.Rand) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*-*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("files are %v: %v", files, err)
	}
	slices.Sort(files)
	path := files[rnd.IntN(len(files))]
	if rnd.IntN(3) == 0 {
		path = filepath.Join(dir, lastSegment(files))
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := rnd.IntN(len(b))
	what := fmt.Sprintf("%s, bit flipped at %d of %d", filepath.Base(path), at, len(b))
	if rnd.IntN(2) == 0 {
		what = fmt.Sprintf("%s, cut to %d of %d", filepath.Base(path), at, len(b))
		if isBoundary(b, at) {
			what += ", a boundary"
		}
		b = b[:at]
	} else {
		b[at] ^= 1 << rnd.IntN(8)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return what
}

func lastSegment(files []string) (name string) {
	for _, f := range files {
		if strings.HasPrefix(filepath.Base(f), segmentPrefix) {
			name = filepath.Base(f)
		}
	}
	return name
}

// isBoundary says whether a whole record ends at that place: such a cut cannot be told from a journal that ends there.
func isBoundary(b []byte, at int) bool {
	end := headSize
	for end < at {
		f, err := decodeFrame(b[end:min(end+frameHead, len(b))], int64(len(b)-end))
		if err != nil {
			return false
		}
		end += f.head + int(f.size)
	}
	return end == at
}

// checkPrefix fails unless the store holds exactly the first n steps, and returns n.
func checkPrefix(t *testing.T, s *store.Store, what string) int {
	t.Helper()
	n := 0
	if last := get(s, "step"); last != "(none)" {
		fmt.Sscan(last, &n)
		n++
	}
	for i := range 100 {
		done := get(s, fmt.Sprint("step", i)) == "done"
		if i < n-1 && !done || i >= n && done { // the last step's second value may be what was cut off
			t.Fatalf("%s: of %d steps, step %d is done: %t", what, n, i, done)
		}
	}
	return n
}

// faulty is a file whose writes or fsyncs fail on demand.
type faulty struct {
	file
	faults *faults
}

type faults struct {
	mu    sync.Mutex
	write error
	sync  error
}

func (f *faults) set(write, sync error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.write, f.sync = write, sync
}

func (f *faults) now() (write, sync error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.write, f.sync
}

func (f *faulty) Write(b []byte) (int, error) {
	if err, _ := f.faults.now(); err != nil {
		n, _ := f.file.Write(b[:len(b)/2]) // as a disk does that becomes full
		return n, err
	}
	return f.file.Write(b)
}

func (f *faulty) Sync() error {
	if _, err := f.faults.now(); err != nil {
		return err
	}
	return f.file.Sync()
}

// TestAFailingDiskRefusesChangesUntilItRecovers fills the disk, and has fsync fail.
func TestAFailingDiskRefusesChangesUntilItRecovers(t *testing.T) {
	for name, fault := range map[string]struct{ write, sync error }{
		"full disk": {write: syscall.ENOSPC},
		"fsync":     {sync: syscall.EIO},
	} {
		for _, fsync := range []Fsync{Always, EverySec} {
			t.Run(fmt.Sprint(name, fsync), func(t *testing.T) {
				f := &faults{}
				log, lines := quiet()
				cfg := Config{Dir: t.TempDir(), Values: true, Fsync: fsync, Log: log, create: func(path string) (file, error) {
					real, err := createFile(path)
					return &faulty{real, f}, err
				}}
				s, j := open(t, cfg)
				set(t, s, j, "before", "1")
				f.set(fault.write, fault.sync)
				s.Apply(setCommand("during", "1"))
				err := j.Commit()
				if fsync == EverySec && fault.sync != nil {
					tick(j)
					err = j.Ready()
				}
				if !errors.Is(err, ErrNotWritable) || !errors.Is(j.Ready(), ErrNotWritable) {
					t.Fatalf("commit: %v; ready: %v", err, j.Ready())
				}
				tick(j)
				if err := j.Ready(); err == nil {
					t.Fatal("ready though the disk still fails")
				}
				if get(s, "before") != "1" {
					t.Error("reads must go on")
				}
				f.set(nil, nil)
				for range longestPause {
					tick(j)
				}
				if err := j.Ready(); err != nil {
					t.Fatalf("it did not recover: %v", err)
				}
				set(t, s, j, "after", "1")
				crash(j)
				if !strings.Contains(lines.String(), "can be written again") {
					t.Errorf("the log does not tell of the recovery: %s", lines)
				}

				cfg.create = nil
				s, j = open(t, cfg)
				defer j.Close()
				for _, key := range []string{"before", "during", "after"} {
					if get(s, key) != "1" {
						t.Errorf("%s is not there after a restart", key)
					}
				}
			})
		}
	}
}

var plainHead = newHead(1, nil)

func plain() *codec {
	c, err := newCodec(plainHead, nil)
	if err != nil {
		panic(err)
	}
	return c
}

// FuzzReplay: whatever a segment or a snapshot holds, sealed or not, a replay ends with records or with a named damage, and what
// Check finds damaged is what a start refuses.
func FuzzReplay(f *testing.F) {
	key := strings.Repeat("5c", keySize)
	for _, sealed := range []bool{false, true} {
		path := filepath.Join(f.TempDir(), "keys")
		if err := os.WriteFile(path, []byte(key), 0o600); err != nil {
			f.Fatal(err)
		}
		var keys *Keys
		if sealed {
			keys, _ = LoadKeys(path)
		}
		for _, kind := range []struct {
			magic    string
			snapshot bool
		}{{segmentMagic, false}, {snapshotMagic, true}} {
			h := newHead(1, keys)
			c, err := newCodec(h, keys)
			if err != nil {
				f.Fatal(err)
			}
			records := c.appendRecord(h.encode(kind.magic), setRecord())
			f.Add(kind.snapshot, c.appendRecord(records, []byte("no record of the store's")))
			f.Add(kind.snapshot, c.appendEnd(records, 1))
			f.Add(kind.snapshot, c.appendEnd(h.encode(kind.magic), 0))
			f.Add(kind.snapshot, records[:len(records)-1])
		}
	}
	f.Add(false, []byte("coat"))
	f.Fuzz(func(t *testing.T, snapshot bool, b []byte) {
		dir, keys := t.TempDir(), keys(t, key)
		prefix := segmentPrefix
		if snapshot {
			prefix = snapshotPrefix
		}
		if err := os.WriteFile(filepath.Join(dir, fileName(prefix, 1)), b, 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := Check(dir, keys)
		log, _ := quiet()
		j := New(Config{Dir: dir, Values: true, Fsync: Never, Keys: keys, Log: log}, store.New(store.Limits{}))
		started := j.Open()
		if started == nil {
			j.Close()
		}
		if refused := err != nil || report.Damage != nil; refused != (started != nil) {
			t.Fatalf("the check says %+v, %v; the start says %v", report, err, started)
		}
	})
}

// setRecord returns a record as a store makes it.
func setRecord() (record []byte) {
	s := store.New(store.Limits{})
	s.OnChange(func(b []byte) { record = bytes.Clone(b) })
	s.Apply(setCommand("key", "value"))
	return record
}
