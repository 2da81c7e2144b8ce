package journal

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// errClosed is why nothing can be written after Close, and why a snapshot was given up for it.
var errClosed = fmt.Errorf("%w: it is closed", ErrNotWritable)

// Snapshot writes all entries to a file of their own while service goes on, and removes the segments that it replaces.
func (j *Journal) Snapshot() error {
	j.snapshots.Lock()
	defer j.snapshots.Unlock()
	if j.closing.Load() {
		return errClosed
	}
	began := time.Now()
	number, err := j.rotate()
	if err != nil {
		return fmt.Errorf("begin a segment: %w", err)
	}
	j.mu.Lock()
	replaced, rekeyed := j.since, j.rekey
	j.mu.Unlock()
	path := filepath.Join(j.cfg.Dir, fileName(snapshotPrefix, number))
	size, err := j.writeSnapshot(path+".new", number)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = syncDir(j.cfg.Dir)
	}
	if err != nil {
		os.Remove(path + ".new")
		return fmt.Errorf("snapshot %s: %w", path, err)
	}
	j.cfg.Metrics.snapshot.Observe(time.Since(began).Seconds())
	j.replace(number, replaced, size)
	err = j.removeBefore(number)
	switch {
	case err != nil:
		j.cfg.Log.Warn("could not remove journal files that a snapshot replaced; the next one tries again", "dir", j.cfg.Dir, "error", err)
	case rekeyed:
		j.cfg.Log.Info("all journal files are sealed with the current key", "dir", j.cfg.Dir, "key", j.cfg.Keys.current().String())
	}
	return nil
}

// replace notes that a snapshot of size bytes makes the segments before number, of so many bytes, superfluous.
func (j *Journal) replace(number uint64, bytes, size int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.since -= bytes
	j.snapshot = size
	j.rekey = false
	if j.poisoned < number { // what it stands for is in trusted files now
		j.poisoned = 0
		j.recover()
	}
}

// rotate finishes the segment and begins the next one, whose number it returns. What is pending goes to the new one. A segment
// without records need not be replaced.
func (j *Journal) rotate() (number uint64, err error) {
	err = j.exclusively(func() error {
		j.mu.Lock()
		trusted := j.poisoned != j.seg.number
		j.mu.Unlock()
		old := j.seg
		if trusted && old.records == 0 {
			number = old.number
			return nil
		}
		if err := old.finish(); err != nil && trusted {
			if errors.Is(err, errFsync) {
				j.mu.Lock()
				j.fail(err, old)
				j.mu.Unlock()
			}
			return err
		}
		next, err := j.createSegment(old.number + 1)
		if err != nil {
			return err
		}
		j.mu.Lock()
		j.seg = next
		j.mu.Unlock()
		number = next.number
		old.file.Close() // it was synced, or is not trusted anyway
		return nil
	})
	return number, err
}

// writeSnapshot writes the snapshot and makes it durable. A shard is held only while its entries are copied.
func (j *Journal) writeSnapshot(path string, number uint64) (size int64, err error) {
	h := newHead(number, j.cfg.Keys)
	c, err := newCodec(h, j.cfg.Keys)
	if err != nil {
		return 0, err
	}
	f, err := j.cfg.create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	w.Write(h.encode(snapshotMagic))
	size = headSize
	var entries, frames []byte
	var records uint64
	for shard := range store.Shards {
		if j.closing.Load() {
			return 0, errClosed
		}
		entries = entries[:0]
		j.store.Snapshot(shard, func(record []byte) {
			if j.cfg.Values || !store.IsCache(record) {
				entries = appendPending(entries, record)
			}
		})
		var n uint64
		frames, n = c.appendRecords(frames[:0], entries)
		if _, err := w.Write(frames); err != nil {
			return 0, err
		}
		size += int64(len(frames))
		records += n
	}
	end := c.appendEnd(nil, records)
	w.Write(end)
	if err := w.Flush(); err != nil {
		return 0, err
	}
	return size + int64(len(end)), f.Sync()
}

// removeBefore removes the files that snapshot number replaces.
func (j *Journal) removeBefore(number uint64) error {
	c, err := list(j.cfg.Dir, nil)
	if err != nil {
		return err
	}
	for _, n := range c.snapshots {
		if n < number {
			err = errors.Join(err, os.Remove(c.path(snapshotPrefix, n)))
		}
	}
	for _, n := range c.segments {
		if n < number {
			err = errors.Join(err, os.Remove(c.path(segmentPrefix, n)))
		}
	}
	return err
}
