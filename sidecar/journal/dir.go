package journal

import (
	"bufio"
	"bytes"
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

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// Damage says where a file is damaged. Open returns it when it cannot go on.
type Damage struct {
	File   string
	Offset int64
	What   error
}

func (d *Damage) Error() string {
	if errors.Is(d.What, errNoSnapshot) {
		return fmt.Sprintf("%s: %v; put it back, or restore the directory from a backup", d.File, d.What)
	}
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
	keys      *Keys
	segments  []uint64
	snapshots []uint64
}

// list reads the directory. Unfinished snapshots are not in it.
func list(dir string, keys *Keys) (contents, error) {
	c := contents{dir: dir, keys: keys}
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
	number uint64   // of the last segment; 0: there is none
	last   *scanner // of the last segment; nil: there is none
	torn   *Damage  // its end, which is dropped
	total  uint64   // records of all files
	bytes  int64    // of all files
	rekey  bool     // a file is not sealed with the key that new files are
}

// add takes a file in.
func (r *replayed) add(s *scanner, keys *Keys) {
	r.total += s.records
	r.bytes += s.offset
	r.rekey = r.rekey || s.key != keys.current()
}

// replayer takes the records of a replay. What it is given may be gone when it returns.
type replayer interface {
	// restore takes a record, which is at an offset of the file that is being read.
	restore(record []byte, offset int64) error
	// wait returns when all records have been restored. Its error, and that of restore, may be a misplaced one.
	wait() error
}

// misplaced is the error of a record that was given earlier than the last one.
type misplaced struct {
	offset int64
	error
}

func (m *misplaced) Unwrap() error { return m.error }

// replay hands every record of the directory to a replayer: the newest snapshot's, then those of the segments from
// its number on. A torn end of the last segment is reported, not an error.
func (c contents) replay(to replayer) (replayed, error) {
	var r replayed
	segments := c.segments
	if d := c.missingSnapshot(); d != nil {
		return r, d
	}
	if n := len(c.snapshots); n > 0 {
		number := c.snapshots[n-1]
		s, err := c.read(snapshotPrefix, snapshotMagic, number, to)
		if err == nil {
			err = c.mustHaveEnded(s, snapshotPrefix, number)
		}
		if err != nil {
			return r, err
		}
		r.add(s, c.keys)
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
		s, err := c.read(segmentPrefix, segmentMagic, number, to)
		switch {
		case err != nil && last:
			r.torn, err = c.torn(s, err)
		case err == nil && !last:
			err = c.mustHaveEnded(s, segmentPrefix, number)
		}
		if err != nil {
			r.total += s.records
			return r, err
		}
		r.number, r.last = number, s
		r.add(s, c.keys)
	}
	return r, nil
}

// missingSnapshot returns the damage when there should be a snapshot and is none: segments are numbered from 1 on, and only a snapshot
// that stands for the first ones removes them.
func (c contents) missingSnapshot() *Damage {
	if len(c.snapshots) > 0 || len(c.segments) == 0 || c.segments[0] == 1 {
		return nil
	}
	return &Damage{c.path(snapshotPrefix, c.segments[0]), 0, errNoSnapshot}
}

// errNoSnapshot is why segments are of no use by themselves.
var errNoSnapshot = errors.New("the snapshot, which the segments complete, is missing; and so are the segments that it replaced")

func (c contents) path(prefix string, number uint64) string {
	return filepath.Join(c.dir, fileName(prefix, number))
}

// mustHaveEnded returns an error unless a file that was read whole has its end mark.
func (c contents) mustHaveEnded(s *scanner, prefix string, number uint64) error {
	if s.ended {
		return nil
	}
	return &Damage{c.path(prefix, number), s.offset, fmt.Errorf("%w: the end mark is missing", errDamaged)}
}

// read hands the records of one file to a replayer and waits for it. The scanner it returns tells how far it came, also with an error.
func (c contents) read(prefix, magic string, number uint64, to replayer) (*scanner, error) {
	path := c.path(prefix, number)
	f, err := os.Open(path)
	if err != nil {
		return &scanner{}, explain(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return &scanner{}, err
	}
	s := &scanner{r: bufio.NewReaderSize(f, scanBuffer), size: info.Size()}
	at := int64(0)
	for err = s.start(magic, number, c.keys); err == nil; {
		at = s.offset
		var record []byte
		if record, err = s.next(); err == nil {
			err = to.restore(record, at)
		}
	}
	if waited := to.wait(); waited != nil {
		err = waited
	}
	var earlier *misplaced
	if errors.As(err, &earlier) {
		at = earlier.offset
	}
	switch {
	case errors.Is(err, io.EOF):
		return s, nil
	case errors.Is(err, errDamaged), errors.Is(err, store.ErrRecord):
		s.offset = at
		return s, &Damage{path, at, err}
	}
	return s, fmt.Errorf("read %s: %w", path, err)
}

// torn returns err as what is torn, when it is damage at the end of the last segment that a write that was cut off can have left: no
// whole record follows. A file without a whole head was cut off when it was made; it then has nothing else.
func (c contents) torn(s *scanner, err error) (*Damage, error) {
	var d *Damage
	if !errors.As(err, &d) || !errors.Is(err, errDamaged) {
		return nil, err
	}
	f, openErr := os.Open(d.File)
	if openErr != nil {
		return nil, err
	}
	defer f.Close()
	rest, readErr := io.ReadAll(io.NewSectionReader(f, d.Offset, s.size-d.Offset))
	if readErr != nil {
		return nil, err
	}
	if s.codec == nil {
		if len(rest) >= headSize && len(bytes.Trim(rest, "\x00")) > 0 {
			return nil, err
		}
		return d, nil
	}
	if s.codec.frameFollows(rest[min(1, len(rest)):]) {
		return nil, err
	}
	return d, nil
}

// explain says what the system's error means for whoever runs the daemon.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %s", err, whose(path))
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: the journal must be able to write there", err)
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%w: name a directory, or remove the file", err)
	}
	return err
}

// whose tells who owns the nearest part of path that can be seen, and who asks.
func whose(path string) string {
	for ; ; path = filepath.Dir(path) {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err == nil {
			return fmt.Sprintf("%s belongs to user %d, mode %04o, and this process runs as user %d", path, st.Uid, st.Mode&0o7777, os.Geteuid())
		}
		if path == filepath.Dir(path) {
			return fmt.Sprintf("this process runs as user %d", os.Geteuid())
		}
	}
}

const lockName = "LOCK"

// lockDir takes the directory for this process. The lock ends when the file is closed, at the latest with the process.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, explain(path, err)
	}
	if err := flock(f, unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func flock(f *os.File, how int) error {
	switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%s: another daemon uses this directory; stop it or choose another directory", f.Name())
	case err != nil:
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
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
