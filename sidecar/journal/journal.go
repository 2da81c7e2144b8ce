package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

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
	Dir    string
	Fsync  Fsync
	Values bool  // whether values are kept, beside sessions and locks
	Grow   int64 // bytes of segments, at least, after which a snapshot replaces them; 0: 64 MiB
	Log    *slog.Logger

	create func(path string) (file, error) // for tests; nil: the real one
}

// file is what a segment is written to.
type file interface {
	Write(b []byte) (int, error)
	Truncate(size int64) error
	Seek(offset int64, whence int) (int64, error)
	Sync() error
	Close() error
}

func createFile(path string) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// defaultGrow is the least size of the segments that a snapshot replaces.
const defaultGrow = 64 << 20

// ErrNotWritable is returned while the journal cannot be written.
var ErrNotWritable = errors.New("the journal cannot be written")

// Journal keeps the records of one store. It is safe for concurrent use.
type Journal struct {
	cfg   Config
	store *store.Store
	lock  *os.File

	mu       sync.Mutex
	turn     sync.Cond // broadcast when the writer is done
	pending  []byte    // frames that are not yet written; guarded by mu
	spare    []byte    // the buffer to be used next; guarded by mu
	appended uint64    // records taken; guarded by mu
	safe     uint64    // records that Commit need not wait for; guarded by mu
	writing  bool      // somebody writes, without holding mu; guarded by mu
	failure  error     // why records cannot be written; guarded by mu
	poisoned bool      // an fsync failed: the segment cannot be trusted; guarded by mu

	since    int64 // bytes of segments since the last snapshot began; guarded by mu
	snapshot int64 // bytes of the last snapshot; guarded by mu

	// The segment is changed by whoever has set writing, and seg with mu held as well.
	seg     file
	number  uint64
	size    int64 // of its good part
	records uint64

	broken   atomic.Bool // failure is not nil
	unsynced atomic.Bool
}

// New returns a journal of s, which must be empty. It is not ready before Open.
func New(cfg Config, s *store.Store) *Journal {
	if cfg.create == nil {
		cfg.create = createFile
	}
	if cfg.Grow == 0 {
		cfg.Grow = defaultGrow
	}
	j := &Journal{cfg: cfg, store: s, failure: errNotOpen}
	j.turn.L = &j.mu
	j.broken.Store(true)
	return j
}

var errNotOpen = fmt.Errorf("%w: it is not open", ErrNotWritable)

// Open locks the directory, which must exist, replays it into the store and takes the store's records from here
// on. Nobody may use the store meanwhile. It returns a *Damage when the directory's files are not whole.
func (j *Journal) Open() error {
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
	return nil
}

// load replays the directory and begins a new segment. The old last one is given its end mark.
func (j *Journal) load() error {
	began := time.Now()
	if err := removeUnfinished(j.cfg.Dir); err != nil {
		return err
	}
	c, err := list(j.cfg.Dir)
	if err != nil {
		return err
	}
	r, err := c.replay(j.store.Restore)
	if err != nil {
		return err
	}
	if r.torn != nil {
		j.cfg.Log.Warn("the journal's last record was cut off and is dropped; all before it is there",
			"file", r.torn.File, "offset", r.torn.Offset, "what", r.torn.What)
	}
	if r.last > 0 && !r.ended {
		if err := finish(c.path(segmentPrefix, r.last), r); err != nil {
			return err
		}
	}
	if err := j.begin(r.last + 1); err != nil {
		return err
	}
	j.since, j.snapshot = c.sizes()
	j.cfg.Log.Info("journal replayed", "dir", j.cfg.Dir, "records", r.total, "took", time.Since(began).Round(time.Millisecond).String())
	return nil
}

// finish cuts a segment to its good part and gives it its end mark.
func finish(path string, r replayed) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	good, records := r.size, r.records
	tail := appendEnd(nil, records)
	if good < fileHeader { // not even its header was written
		good, tail = 0, append(header(segmentMagic, r.last), tail...)
	}
	if err := f.Truncate(good); err != nil {
		return fmt.Errorf("cut %s to its good part: %w", path, err)
	}
	if _, err := f.WriteAt(tail, good); err != nil {
		return fmt.Errorf("finish %s: %w", path, err)
	}
	return f.Sync()
}

// begin makes a new segment the one that is written to.
func (j *Journal) begin(number uint64) error {
	path := filepath.Join(j.cfg.Dir, fileName(segmentPrefix, number))
	f, err := j.cfg.create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(header(segmentMagic, number))
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDir(j.cfg.Dir)
	}
	if err != nil {
		f.Close()
		os.Remove(path)
		return fmt.Errorf("begin %s: %w", path, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seg, j.number, j.size, j.records = f, number, fileHeader, 0
	return nil
}

// take is the store's sink. It only copies: a shard is held.
func (j *Journal) take(record []byte) {
	if !j.cfg.Values && store.IsCache(record) {
		return
	}
	j.mu.Lock()
	j.pending = appendFrame(j.pending, record)
	j.appended++
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
	for want := j.appended; j.safe < want; {
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

// write writes what is pending. mu is held, but not while writing.
func (j *Journal) write() {
	frames, upTo := j.pending, j.appended
	records := upTo - j.safe
	j.pending, j.spare = j.spare[:0], nil
	j.writing = true
	j.mu.Unlock()
	synced, err := j.writeFrames(frames, records)
	j.mu.Lock()
	j.writing = false
	if err != nil {
		// Nothing of it counts: it is written again, before what came meanwhile.
		j.pending = append(frames, j.pending...)
		j.fail(err, synced)
	} else {
		j.safe = upTo
		j.since += int64(len(frames))
		if cap(frames) <= keptBuffer {
			j.spare = frames
		}
		j.recover()
	}
	j.turn.Broadcast()
}

// keptBuffer is the largest buffer that is kept for further use.
const keptBuffer = 1 << 20

// writeFrames appends to the segment. On failure the segment is what it was; fsyncFailed says that this is not sure.
func (j *Journal) writeFrames(frames []byte, records uint64) (fsyncFailed bool, err error) {
	if _, err := j.seg.Write(frames); err != nil {
		return false, errors.Join(err, j.cut())
	}
	if j.cfg.Fsync == Always {
		if err := j.seg.Sync(); err != nil {
			return true, err
		}
	} else {
		j.unsynced.Store(true)
	}
	j.size += int64(len(frames))
	j.records += records
	return false, nil
}

// cut removes what a failed write may have left.
func (j *Journal) cut() error {
	if err := j.seg.Truncate(j.size); err != nil {
		return err
	}
	_, err := j.seg.Seek(j.size, 0)
	return err
}

// fail begins the time in which commands are refused. mu is held.
func (j *Journal) fail(err error, fsyncFailed bool) {
	j.poisoned = j.poisoned || fsyncFailed
	if j.failure == nil {
		j.cfg.Log.Error("the journal cannot be written: changes are refused until it can", "dir", j.cfg.Dir, "error", err)
	}
	j.failure = fmt.Errorf("%w: %w; changes are refused until it can", ErrNotWritable, err)
	j.broken.Store(true)
}

// recover ends that time. mu is held.
func (j *Journal) recover() {
	if j.failure == nil || j.poisoned {
		return
	}
	j.failure = nil
	j.broken.Store(false)
	j.cfg.Log.Info("the journal can be written again", "dir", j.cfg.Dir)
}

// Tick does what is to be done once a second: it makes records durable under EverySec, tries again after a failure, and
// takes a snapshot when the segments have grown.
func (j *Journal) Tick() {
	if j.broken.Load() {
		j.retry()
		return
	}
	if j.cfg.Fsync == EverySec && j.unsynced.Swap(false) {
		j.sync()
	}
	j.mu.Lock()
	grown := j.since >= max(j.cfg.Grow, 2*j.snapshot)
	j.mu.Unlock()
	if grown {
		if err := j.Snapshot(); err != nil {
			j.cfg.Log.Warn("could not take a snapshot; the journal goes on growing", "dir", j.cfg.Dir, "error", err)
		}
	}
}

// exclusively runs f while nobody else writes.
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

// sync makes what is written durable. Records that come meanwhile need not wait for it.
func (j *Journal) sync() {
	j.mu.Lock()
	seg := j.seg
	j.mu.Unlock()
	if err := seg.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
		j.mu.Lock()
		j.fail(err, true)
		j.mu.Unlock()
	}
}

// retry tries to write again. After a failed fsync the kernel may have dropped what it had, so only a snapshot of everything, in
// new files, makes the directory right again.
func (j *Journal) retry() {
	j.mu.Lock()
	poisoned := j.poisoned
	if !poisoned && !j.writing {
		j.write()
	}
	j.mu.Unlock()
	if poisoned {
		if err := j.Snapshot(); err != nil {
			j.cfg.Log.Debug("the journal still cannot be written", "dir", j.cfg.Dir, "error", err)
		}
	}
}

// Close writes and syncs what is left and gives the directory free.
func (j *Journal) Close() error {
	err := j.Commit()
	err = errors.Join(err, j.exclusively(func() error {
		return errors.Join(j.seg.Sync(), j.seg.Close())
	}))
	return errors.Join(err, j.lock.Close())
}
