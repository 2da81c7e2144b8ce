package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Damage says where a file is damaged. Open returns it when it cannot go on.
type Damage struct {
	File   string
	Offset int64
	What   error
}

func (d *Damage) Error() string {
	return fmt.Sprintf("%s, offset %d: %v; look with: coatcheck journal check %s; keep what is before it with: coatcheck journal repair %s",
		d.File, d.Offset, d.What, filepath.Dir(d.File), filepath.Dir(d.File))
}

func (d *Damage) Unwrap() error { return d.What }

const (
	segmentPrefix  = "journal-"
	snapshotPrefix = "snapshot-"
)

func fileName(prefix string, number uint64) string { return fmt.Sprintf("%s%016d", prefix, number) }

// contents are the files of a journal's directory, by their numbers in ascending order.
type contents struct {
	dir       string
	segments  []uint64
	snapshots []uint64
}

// list reads the directory. Unfinished snapshots are not in it.
func list(dir string) (contents, error) {
	c := contents{dir: dir}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return c, err
	}
	for _, e := range entries {
		for prefix, numbers := range map[string]*[]uint64{segmentPrefix: &c.segments, snapshotPrefix: &c.snapshots} {
			digits, ok := strings.CutPrefix(e.Name(), prefix)
			if n, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && e.Name() == fileName(prefix, n) {
				*numbers = append(*numbers, n)
			}
		}
	}
	slices.Sort(c.segments)
	slices.Sort(c.snapshots)
	return c, nil
}

// sizes returns how many bytes there are in segments, and in the newest snapshot.
func (c contents) sizes() (segments, snapshot int64) {
	size := func(prefix string, number uint64) int64 {
		info, err := os.Stat(c.path(prefix, number))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	for _, n := range c.segments {
		segments += size(segmentPrefix, n)
	}
	if n := len(c.snapshots); n > 0 {
		snapshot = size(snapshotPrefix, c.snapshots[n-1])
	}
	return segments, snapshot
}

// replayed is what a replay found.
type replayed struct {
	last    uint64 // number of the last segment; 0: there is none
	size    int64  // length of the last segment's good part
	records uint64 // in the last segment
	ended   bool   // the last segment has its end mark
	torn    *Damage
	total   uint64 // records of all files
}

// replay hands every record of the directory to apply: the newest snapshot's, then those of the segments from
// its number on. A torn end of the last segment is reported, not an error.
func (c contents) replay(apply func(record []byte) error) (replayed, error) {
	var r replayed
	segments := c.segments
	if n := len(c.snapshots); n > 0 {
		number := c.snapshots[n-1]
		s, err := c.read(snapshotPrefix, snapshotMagic, number, apply)
		if err == nil && !s.ended {
			err = &Damage{c.path(snapshotPrefix, number), s.offset, fmt.Errorf("%w: the end mark is missing", errDamaged)}
		}
		if err != nil {
			return r, err
		}
		r.total += s.records
		at, _ := slices.BinarySearch(segments, number)
		segments = segments[at:]
		if len(segments) == 0 || segments[0] != number {
			return r, &Damage{c.path(segmentPrefix, number), 0, errors.New("the segment that follows the snapshot is missing")}
		}
	}
	for i, number := range segments {
		if i > 0 && number != segments[i-1]+1 {
			return r, &Damage{c.path(segmentPrefix, segments[i-1]+1), 0, errors.New("the segment is missing")}
		}
		last := i == len(segments)-1
		s, err := c.read(segmentPrefix, segmentMagic, number, apply)
		var d *Damage
		if last && errors.As(err, &d) && errors.Is(err, errDamaged) && c.isTorn(d) {
			r.torn, err = d, nil
		}
		if err == nil && !last && !s.ended {
			err = &Damage{c.path(segmentPrefix, number), s.offset, fmt.Errorf("%w: the end mark is missing", errDamaged)}
		}
		if err != nil {
			return r, err
		}
		r.last, r.size, r.records, r.ended = number, s.offset, s.records, s.ended
		r.total += s.records
	}
	return r, nil
}

func (c contents) path(prefix string, number uint64) string {
	return filepath.Join(c.dir, fileName(prefix, number))
}

// read hands the records of one file to apply. The scanner it returns tells how far it came, also with an error.
func (c contents) read(prefix, magic string, number uint64, apply func([]byte) error) (*scanner, error) {
	path := c.path(prefix, number)
	f, err := os.Open(path)
	if err != nil {
		return &scanner{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return &scanner{}, err
	}
	s, err := newScanner(f, info.Size(), magic, number)
	if err != nil {
		return &scanner{}, &Damage{path, 0, err}
	}
	for {
		at := s.offset
		record, err := s.next()
		if err == nil {
			err = apply(record)
		}
		switch {
		case errors.Is(err, io.EOF):
			return s, nil
		case err != nil:
			s.offset = at
			return s, &Damage{path, at, err}
		}
	}
}

// isTorn says whether damage in the last segment is a write that was cut off: no whole record follows it. A file
// without a whole header was cut off when it was made, unless it is longer than that.
func (c contents) isTorn(d *Damage) bool {
	b, err := os.ReadFile(d.File)
	if err != nil {
		return false
	}
	if d.Offset < fileHeader {
		return len(b) < fileHeader
	}
	rest := b[min(d.Offset+1, int64(len(b))):]
	return !frameFollows(rest)
}

// lockDir takes the directory for this process. The lock ends when the file is closed, at the latest with the process.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, "LOCK")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: another daemon uses this directory; stop it or choose another directory", path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// syncDir makes the directory's entries durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// removeUnfinished removes snapshots that were not finished.
func removeUnfinished(dir string) error {
	leftovers, err := filepath.Glob(filepath.Join(dir, snapshotPrefix+"*.new"))
	for _, path := range leftovers {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}
