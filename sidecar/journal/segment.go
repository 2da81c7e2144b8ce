package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// file is what a segment is written to.
type file interface {
	Write(b []byte) (int, error)
	Truncate(size int64) error
	Seek(offset int64, whence int) (int64, error)
	Sync() error
	Close() error
}

// createFile makes a file, or empties the one that an attempt before could not remove.
func createFile(path string) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
}

// errFsync is returned when an fsync failed. The kernel reports such a failure once and may have dropped what it could not
// write, so the file cannot be trusted from then on, whatever a later fsync says.
var errFsync = errors.New("fsync failed")

// segment is the file to which records are appended. One goroutine at a time uses it, but sync and close may be called by any.
type segment struct {
	file    file
	metrics *Metrics
	codec   *codec
	number  uint64
	size    int64 // of its good part
	records uint64
	ragged  bool // something may be behind the good part
	frames  []byte
}

// createSegment makes a durable segment without records.
func (j *Journal) createSegment(number uint64) (*segment, error) {
	path := filepath.Join(j.cfg.Dir, fileName(segmentPrefix, number))
	h := newHead(number, j.cfg.Keys)
	c, err := newCodec(h, j.cfg.Keys)
	if err != nil {
		return nil, err
	}
	f, err := j.cfg.create(path)
	if err != nil {
		return nil, err
	}
	s := &segment{file: f, metrics: j.cfg.Metrics, codec: c, number: number, size: headSize}
	_, err = f.Write(h.encode(segmentMagic))
	if err == nil {
		err = s.sync()
	}
	if err == nil {
		err = syncDir(j.cfg.Dir)
	}
	if err != nil {
		f.Close()
		os.Remove(path)
		return nil, fmt.Errorf("begin %s: %w", path, err)
	}
	return s, nil
}

// append appends records, each with its length before it, and returns how many bytes that took. When it fails, none of them counts.
func (s *segment) append(records []byte, sync bool) (int, error) {
	if err := s.cut(); err != nil {
		return 0, err
	}
	var count uint64
	s.frames, count = s.codec.appendRecords(s.frames[:0], records)
	written := len(s.frames)
	if err := s.write(s.frames); err != nil {
		return 0, err
	}
	if cap(s.frames) > keptBuffer {
		s.frames = nil
	}
	if sync {
		if err := s.sync(); err != nil {
			s.ragged = true
			return 0, err
		}
	}
	s.size += int64(written)
	s.records += count
	return written, nil
}

// write writes behind the good part, which stays as it is.
func (s *segment) write(frames []byte) error {
	if _, err := s.file.Write(frames); err != nil {
		s.ragged = true
		s.metrics.failures.WithLabelValues("write").Inc()
		return errors.Join(err, s.cut())
	}
	s.metrics.written.Add(float64(len(frames)))
	return nil
}

// cut removes what may be behind the good part.
func (s *segment) cut() error {
	if !s.ragged {
		return nil
	}
	if err := s.file.Truncate(s.size); err != nil {
		return err
	}
	if _, err := s.file.Seek(s.size, io.SeekStart); err != nil {
		return err
	}
	s.ragged = false
	return nil
}

// finish gives the segment its end mark and makes it durable. Unless another segment is begun then, the end mark has to be cut off again.
func (s *segment) finish() error {
	if err := s.cut(); err != nil {
		return err
	}
	if err := s.write(s.codec.appendEnd(nil, s.records)); err != nil {
		return err
	}
	s.ragged = true
	return s.sync()
}

// sync makes what is written durable.
func (s *segment) sync() error {
	began := time.Now()
	if err := s.file.Sync(); err != nil {
		if errors.Is(err, os.ErrClosed) {
			return err
		}
		s.metrics.failures.WithLabelValues("fsync").Inc()
		return fmt.Errorf("%w: %w", errFsync, err)
	}
	s.metrics.fsync.Observe(time.Since(began).Seconds())
	return nil
}
