package journal

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// Snapshot writes all entries to a file of their own while service goes on, and removes the segments that it replaces.
func (j *Journal) Snapshot() error {
	number, err := j.rotate()
	if err != nil {
		return err
	}
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
	j.mu.Lock()
	j.snapshot, j.since = size, 0
	if j.poisoned { // everything is in new files now
		j.poisoned = false
		j.recover()
	}
	j.mu.Unlock()
	return j.removeBefore(number)
}

// rotate finishes the segment and begins the next one, whose number it returns. What is pending goes to the new one.
func (j *Journal) rotate() (uint64, error) {
	j.mu.Lock()
	poisoned := j.poisoned
	j.mu.Unlock()
	var number uint64
	err := j.exclusively(func() error {
		old, oldNumber := j.seg, j.number
		err := j.finish()
		if err != nil && !poisoned {
			return errors.Join(err, j.cut())
		}
		if err := j.begin(oldNumber + 1); err != nil {
			return errors.Join(err, j.cut()) // the end mark is not the end
		}
		number = j.number
		old.Close() // it was synced, or is not trusted anyway
		return nil
	})
	return number, err
}

// finish gives the segment its end mark and makes it durable.
func (j *Journal) finish() error {
	if err := j.cut(); err != nil { // after a failed fsync there may be frames that are pending again
		return err
	}
	if _, err := j.seg.Write(appendEnd(nil, j.records)); err != nil {
		return err
	}
	return j.seg.Sync()
}

// writeSnapshot writes the snapshot and makes it durable. A shard is held only while its entries are copied.
func (j *Journal) writeSnapshot(path string, number uint64) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	w.Write(header(snapshotMagic, number))
	size = fileHeader
	var frames []byte
	var records uint64
	for shard := range store.Shards {
		frames = frames[:0]
		j.store.Snapshot(shard, func(record []byte) {
			if j.cfg.Values || !store.IsCache(record) {
				frames = appendFrame(frames, record)
				records++
			}
		})
		if _, err := w.Write(frames); err != nil {
			return 0, err
		}
		size += int64(len(frames))
	}
	w.Write(appendEnd(nil, records))
	if err := w.Flush(); err != nil {
		return 0, err
	}
	return size, f.Sync()
}

// removeBefore removes the files that snapshot number replaces.
func (j *Journal) removeBefore(number uint64) error {
	c, err := list(j.cfg.Dir)
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
