package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// Fsync says when written records are made to survive a loss of power.
type Fsync uint8

const (
	EverySec Fsync = iota // within a second
	Always                // before Commit returns
	Never                 // when the kernel thinks fit
)

// Config is what a Journal needs to know.
type Config struct {
	Dir     string
	Fsync   Fsync
	Values  bool  // whether values are kept, beside sessions and locks
	Keys    *Keys // what files are sealed with; nil: nothing
	Grow    int64 // bytes of segments, at least, after which a snapshot replaces them; 0: 64 MiB
	Log     *slog.Logger
	Metrics *Metrics // nil: nobody wants them

	create func(path string) (file, error) // for tests; nil: the real one
}

// defaultGrow is the least size of the segments that a snapshot replaces.
const defaultGrow = 64 << 20

// ErrNotWritable is returned while the journal cannot be written.
var ErrNotWritable = errors.New("the journal cannot be written")

// Journal keeps the records of one store. It is safe for concurrent use, except for Tick and Close, which are for one
// goroutine each.
//
// A shard of the store may be held while mu is taken, never the other way round. snapshots is taken before either.
type Journal struct {
	cfg   Config
	store *store.Store
	lock  *os.File // nil: not open

	mu       sync.Mutex
	turn     sync.Cond // broadcast when the writer is done
	pending  []byte    // records that are not yet written, each with its length before it; guarded by mu
	spare    []byte    // the buffer to be used next; guarded by mu
	taken    uint64    // bytes taken so far; guarded by mu
	safe     uint64    // how many of them Commit need not wait for; guarded by mu
	writing  bool      // somebody uses the segment, without holding mu; guarded by mu
	failure  error     // why records cannot be written; guarded by mu
	poisoned uint64    // number of a segment that cannot be trusted, until a snapshot stands for it; 0: none; guarded by mu

	since    int64 // bytes of segments since the last snapshot began; guarded by mu
	snapshot int64 // bytes of the last snapshot; guarded by mu
	rekey    bool  // there are files that the current key did not seal; guarded by mu

	seg *segment // used by whoever has set writing, and replaced with mu held as well

	broken   atomic.Bool // failure is not nil
	unsynced atomic.Bool
	closing  atomic.Bool

	snapshots  sync.Mutex     // held by who takes a snapshot
	background sync.WaitGroup // the snapshot that Tick began
	snapping   bool           // Tick has begun one; guarded by mu
	tries      int            // failed snapshots in a row; guarded by mu
	pause      int            // ticks until the next one may be tried; guarded by mu
}

// New returns a journal of s, which must be empty. It is not ready before Open.
func New(cfg Config, s *store.Store) *Journal {
	if cfg.create == nil {
		cfg.create = createFile
	}
	if cfg.Grow == 0 {
		cfg.Grow = defaultGrow
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	j := &Journal{cfg: cfg, store: s, failure: errNotOpen}
	j.turn.L = &j.mu
	j.broken.Store(true)
	return j
}

var errNotOpen = fmt.Errorf("%w: it is not open", ErrNotWritable)

// Open locks the directory, which it makes when it is missing, replays it into the store and takes the store's records from here
// on. Nobody may use the store meanwhile. It returns a *Damage when the directory's files are not whole, and an
// error that wraps ErrKey when they are sealed with a key that is not there.
func (j *Journal) Open() error {
	if err := j.prepare(); err != nil {
		return err
	}
	lock, err := lockDir(j.cfg.Dir)
	if err != nil {
		return err
	}
	if err := j.load(); err != nil {
		lock.Close()
		return err
	}
	j.lock = lock
	j.store.OnChange(j.take)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failure = nil
	j.broken.Store(false)
	j.cfg.Metrics.writable.Set(1)
	return nil
}

// prepare makes the directory, and warns of one that others could change.
func (j *Journal) prepare() error {
	if err := os.MkdirAll(j.cfg.Dir, 0o700); err != nil {
		return explain(j.cfg.Dir, err)
	}
	info, err := os.Stat(j.cfg.Dir)
	if err != nil {
		return explain(j.cfg.Dir, err)
	}
	if info.Mode()&0o022 != 0 {
		j.cfg.Log.Warn("others than its owner can remove and replace files in the data directory; chmod 700 it",
			"dir", j.cfg.Dir, "mode", fmt.Sprintf("%04o", info.Mode()&fs.ModePerm))
	}
	return nil
}

// load replays the directory and begins a new segment. The old last one is given its end mark.
func (j *Journal) load() error {
	began := time.Now()
	if err := removeUnfinished(j.cfg.Dir); err != nil {
		return err
	}
	c, err := list(j.cfg.Dir, j.cfg.Keys)
	if err != nil {
		return explain(j.cfg.Dir, err)
	}
	j.since, j.snapshot = c.sizes()
	useHugePages(j.since + j.snapshot)
	restorers := newRestorers(j.restore)
	defer restorers.end()
	r, err := c.replay(restorers)
	if err != nil {
		return err
	}
	if r.torn != nil {
		j.cfg.Log.Warn("the journal's end was cut off and is dropped; all before it is there",
			"file", r.torn.File, "offset", r.torn.Offset, "what", r.torn.What, "records_before", r.total)
	}
	if r.last != nil && !r.last.ended {
		if err := j.complete(c.path(segmentPrefix, r.number), r); err != nil {
			return err
		}
	}
	if j.seg, err = j.createSegment(r.number + 1); err != nil {
		return err
	}
	j.rekey = r.rekey
	if !j.cfg.Values {
		if err := j.leaveValuesOut(); err != nil {
			return err
		}
	}
	took := time.Since(began)
	j.cfg.Metrics.replay.Set(took.Seconds())
	j.cfg.Log.Info("journal replayed", "dir", j.cfg.Dir, "records", r.total, "bytes", r.bytes, "took", took.Round(time.Millisecond).String())
	return nil
}

// restore replays one record.
func (j *Journal) restore(record []byte) error {
	if !j.cfg.Values && store.IsCache(record) {
		return nil
	}
	return j.store.Restore(record)
}

// leaveValuesOut has a later start, that wants values again, not find those from before.
func (j *Journal) leaveValuesOut() error {
	n, err := j.seg.append(appendPending(nil, store.NoValues()), false)
	j.since += int64(n)
	return err
}

// complete cuts the last segment to its good part and gives it its end mark.
func (j *Journal) complete(path string, r replayed) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return explain(path, err)
	}
	defer f.Close()
	var tail []byte
	c := r.last.codec
	if c == nil { // not even its head was written
		h := newHead(r.number, nil)
		if c, err = newCodec(h, nil); err != nil {
			return err
		}
		tail = h.encode(segmentMagic)
	}
	tail = c.appendEnd(tail, r.last.records)
	if err := f.Truncate(r.last.offset); err != nil {
		return fmt.Errorf("cut %s to its good part: %w", path, err)
	}
	if _, err := f.WriteAt(tail, r.last.offset); err != nil {
		return fmt.Errorf("complete %s: %w", path, err)
	}
	return f.Sync()
}

// take is the store's sink. It only copies: a shard is held.
func (j *Journal) take(record []byte) {
	if !j.cfg.Values && store.IsCache(record) {
		return
	}
	j.mu.Lock()
	before := len(j.pending)
	j.pending = appendPending(j.pending, record)
	j.taken += uint64(len(j.pending) - before)
	j.mu.Unlock()
}

// Ready returns nil, or an error that wraps ErrNotWritable and says why commands that change something must be refused.
func (j *Journal) Ready() error {
	if !j.broken.Load() {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failure
}

// Commit returns when every record that was taken before is as safe as Fsync asks for. An error wraps
// ErrNotWritable: the change was made in memory, but may not outlive it.
func (j *Journal) Commit() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for want := j.taken; j.safe < want; {
		switch {
		case j.failure != nil:
			return j.failure
		case j.writing:
			j.turn.Wait()
		default:
			j.write()
		}
	}
	return nil
}

// Sync returns when every record that was taken before survives a loss of power, whatever Fsync asks for. An error wraps ErrNotWritable.
func (j *Journal) Sync() error {
	if err := j.Commit(); err != nil {
		return err
	}
	if j.cfg.Fsync != Always {
		j.sync()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failure
}

// write writes what is pending. mu is held, but not while writing.
func (j *Journal) write() {
	records := j.pending
	j.pending, j.spare = j.spare[:0], nil
	j.writing = true
	j.mu.Unlock()
	n, err := j.seg.append(records, j.cfg.Fsync == Always)
	j.mu.Lock()
	j.writing = false
	if err != nil {
		// Nothing of it counts: it is written again, before what came meanwhile.
		j.pending = append(records, j.pending...)
		j.fail(err, j.seg)
	} else {
		j.safe += uint64(len(records))
		j.since += int64(n)
		if cap(records) <= keptBuffer {
			j.spare = records
		}
		j.unsynced.Store(j.cfg.Fsync == EverySec)
		j.recover()
	}
	j.turn.Broadcast()
}

// keptBuffer is the largest buffer that is kept for further use.
const keptBuffer = 1 << 20

// fail begins the time in which commands are refused, because a segment could not be written. mu is held.
func (j *Journal) fail(err error, seg *segment) {
	if errors.Is(err, errFsync) {
		j.poisoned = seg.number
	}
	if j.failure == nil {
		j.cfg.Log.Error("the journal cannot be written: changes are refused until it can", "dir", j.cfg.Dir, "error", err)
	}
	j.failure = fmt.Errorf("%w: %w; changes are refused until it can", ErrNotWritable, err)
	j.broken.Store(true)
	j.cfg.Metrics.writable.Set(0)
}

// recover ends that time. mu is held.
func (j *Journal) recover() {
	if j.failure == nil || j.poisoned != 0 {
		return
	}
	j.failure = nil
	j.broken.Store(false)
	j.cfg.Metrics.writable.Set(1)
	j.cfg.Log.Info("the journal can be written again", "dir", j.cfg.Dir)
}

// Tick is to be called once a second or more often. It makes records durable under EverySec, tries again after a
// failure, and begins a snapshot when the segments have grown.
func (j *Journal) Tick() {
	j.writePending()
	if j.unsynced.Swap(false) {
		j.sync()
	}
	if j.wantsSnapshot() {
		j.background.Go(j.trySnapshot)
	}
}

// writePending writes what nobody waits for, such as evictions, and what could not be written before.
func (j *Journal) writePending() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.writing && j.poisoned == 0 && len(j.pending) > 0 {
		j.write()
	}
	j.cfg.Metrics.bytes.WithLabelValues("segments").Set(float64(j.since))
	j.cfg.Metrics.bytes.WithLabelValues("snapshot").Set(float64(j.snapshot))
}

// sync makes what is written durable. Records that come meanwhile need not wait for it.
func (j *Journal) sync() {
	j.mu.Lock()
	seg := j.seg
	j.mu.Unlock()
	if err := seg.sync(); err != nil && !errors.Is(err, os.ErrClosed) { // who closed it synced it
		j.mu.Lock()
		j.fail(err, seg)
		j.mu.Unlock()
	}
}

// wantsSnapshot says whether a snapshot should be taken, and takes it for begun. After a failed fsync the kernel may
// have dropped what it had, so only a snapshot of everything, in new files, makes the directory right again.
func (j *Journal) wantsSnapshot() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.snapping:
		return false
	case j.pause > 0:
		j.pause--
		return false
	case j.poisoned != 0:
	case j.failure != nil:
		return false // a full disk: a snapshot would not fit either
	case j.rekey:
	case j.since < max(j.cfg.Grow, j.snapshot):
		return false
	}
	j.snapping = true
	return true
}

// trySnapshot takes a snapshot. After a failure, others wait for the longer the more have failed: each may fill the disk for a while.
func (j *Journal) trySnapshot() {
	err := j.Snapshot()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.snapping = false
	if err == nil {
		j.tries = 0
		return
	}
	j.tries++
	j.pause = min(1<<j.tries, longestPause)
	if errors.Is(err, errClosed) {
		return
	}
	j.cfg.Metrics.failures.WithLabelValues("snapshot").Inc()
	j.cfg.Log.Warn("could not take a snapshot; the journal goes on growing, trying again", "dir", j.cfg.Dir, "error", err)
}

// longestPause is the most ticks between attempts to take a snapshot.
const longestPause = 64

// exclusively runs f while nobody else uses the segment.
func (j *Journal) exclusively(f func() error) error {
	j.mu.Lock()
	for j.writing {
		j.turn.Wait()
	}
	j.writing = true
	j.mu.Unlock()
	err := f()
	j.mu.Lock()
	j.writing = false
	j.turn.Broadcast()
	j.mu.Unlock()
	return err
}

// Close writes and syncs what is left and gives the directory free. A journal that is not open is left alone.
func (j *Journal) Close() error {
	if j.lock == nil {
		return nil
	}
	j.closing.Store(true)
	j.background.Wait()
	err := j.Commit()
	err = errors.Join(err, j.exclusively(func() error {
		err := errors.Join(j.seg.sync(), j.seg.file.Close())
		j.mu.Lock()
		defer j.mu.Unlock()
		j.failure = errClosed
		j.broken.Store(true)
		j.cfg.Metrics.writable.Set(0)
		return err
	}))
	return errors.Join(err, j.lock.Close())
}
