package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// Report is what Check found.
type Report struct {
	Files   int     // that a start would read
	Records uint64  // all, or those before the damage
	Torn    *Damage // the end of the last segment, which a start would drop; nil: none
	Damage  *Damage // what a start would refuse; nil: none
}

// Check reads the journal in dir as a start would, without changing it. No daemon may use it meanwhile. It returns an error that wraps
// ErrKey when a file is sealed with a key that is not in keys.
func Check(dir string, keys *Keys) (Report, error) {
	release, err := shareDir(dir)
	if err != nil {
		return Report{}, err
	}
	defer release()
	return check(dir, keys)
}

func check(dir string, keys *Keys) (Report, error) {
	c, err := list(dir, keys)
	if err != nil {
		return Report{}, explain(dir, err)
	}
	restorers := newRestorers(store.New(store.Limits{}).Restore)
	defer restorers.end()
	r, err := c.replay(restorers)
	report := Report{Files: len(c.segments) + min(len(c.snapshots), 1), Records: r.total, Torn: r.torn}
	if errors.As(err, &report.Damage) {
		return report, nil
	}
	return report, err
}

// shareDir keeps daemons out of a directory, which it does not change.
func shareDir(dir string) (release func(), err error) {
	path := filepath.Join(dir, lockName)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) { // no daemon was ever there
		return func() {}, nil
	}
	if err != nil {
		return nil, explain(path, err)
	}
	if err := flock(f, unix.LOCK_SH); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// Repair makes a journal that a start would refuse acceptable by keeping exactly what is before the damage. What is taken out is kept
// beside it in files whose names end in .lost, which nothing reads. It returns what it did, a sentence
// each. A snapshot that is damaged or missing cannot be repaired: what is before its damage is a part of the keys, not of the time, and
// what is behind it is only what changed since.
func Repair(dir string, keys *Keys) (did []string, err error) {
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	report, err := check(dir, keys)
	if err != nil || report.Damage == nil {
		return nil, err
	}
	c, err := list(dir, keys)
	if err != nil {
		return nil, err
	}
	d := report.Damage
	if errors.Is(d, errNoSnapshot) {
		return nil, fmt.Errorf("%s is missing, which cannot be repaired: put it back, restore the directory from a backup, or move the directory away to begin empty", d.File)
	}
	if n := len(c.snapshots); n > 0 && d.File == c.path(snapshotPrefix, c.snapshots[n-1]) {
		return nil, fmt.Errorf("%s is a damaged snapshot, which cannot be repaired: restore the directory from a backup, or move it away to begin empty", d.File)
	}
	for _, n := range c.segments {
		path := c.path(segmentPrefix, n)
		if path < d.File {
			continue
		}
		lost := unused(path + ".lost")
		what := fmt.Sprintf("%s is kept as %s and no longer read", path, lost)
		if path == d.File && d.Offset >= headSize {
			what = fmt.Sprintf("%s was cut to its first %d bytes; the rest is kept as %s", path, d.Offset, lost)
			err = splitFile(path, lost, d.Offset)
		} else {
			err = os.Rename(path, lost)
		}
		if err != nil {
			return did, err
		}
		did = append(did, what)
	}
	if _, err := os.Stat(d.File); errors.Is(err, fs.ErrNotExist) { // the next segment, or a snapshot, needs one of that number
		var number uint64
		fmt.Sscanf(filepath.Base(d.File), segmentPrefix+"%d", &number)
		if err := os.WriteFile(d.File, newHead(number, nil).encode(segmentMagic), 0o600); err != nil {
			return did, err
		}
		did = append(did, d.File+" is now an empty segment")
	}
	return did, syncDir(dir)
}

// unused returns the path, or one like it of a file that does not exist.
func unused(path string) string {
	name := path
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name
		}
		name = fmt.Sprintf("%s.%d", path, n)
	}
}

// splitFile moves what is behind the first size bytes of a file to another.
func splitFile(path, rest string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	to, err := os.OpenFile(rest, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := f.Seek(size, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(to, f); err != nil {
		return err
	}
	if err := to.Sync(); err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}
