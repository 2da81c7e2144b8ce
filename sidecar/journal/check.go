package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// Report is what Check found.
type Report struct {
	Records uint64
	Torn    *Damage // the end of the last segment, which a start would drop; nil: none
	Damage  *Damage // what a start would refuse; nil: none
}

// Check reads the journal in dir as a start would, without changing it.
func Check(dir string) (Report, error) {
	c, err := list(dir)
	if err != nil {
		return Report{}, err
	}
	r, err := c.replay(store.New(store.Limits{}).Restore)
	report := Report{Records: r.total, Torn: r.torn}
	if errors.As(err, &report.Damage) {
		return report, nil
	}
	return report, err
}

// Repair makes a journal that a start would refuse acceptable by keeping exactly what is before the damage: the
// damaged segment is cut there, and segments behind it are renamed so that nothing reads them. It returns what it did, a sentence
// each. A damaged snapshot cannot be repaired: what is before its damage is a part of the keys, not of the time.
func Repair(dir string) (did []string, err error) {
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	report, err := Check(dir)
	if err != nil || report.Damage == nil {
		return nil, err
	}
	c, err := list(dir)
	if err != nil {
		return nil, err
	}
	d := report.Damage
	if n := len(c.snapshots); n > 0 && d.File == c.path(snapshotPrefix, c.snapshots[n-1]) {
		return nil, fmt.Errorf("%s is a damaged snapshot, which cannot be repaired: restore the directory from a backup, or move it away to begin empty", d.File)
	}
	for _, n := range c.segments {
		path := c.path(segmentPrefix, n)
		switch {
		case path > d.File || path == d.File && d.Offset < fileHeader:
			if err := os.Rename(path, path+".lost"); err != nil {
				return did, err
			}
			did = append(did, fmt.Sprintf("%s is kept as %s.lost and no longer read", path, path))
		case path == d.File:
			if err := os.Truncate(path, d.Offset); err != nil {
				return did, err
			}
			did = append(did, fmt.Sprintf("%s was cut to its first %d bytes", path, d.Offset))
		}
	}
	if _, err := os.Stat(d.File); errors.Is(err, fs.ErrNotExist) { // the next segment, or a snapshot, needs one of that number
		var number uint64
		fmt.Sscanf(filepath.Base(d.File), segmentPrefix+"%d", &number)
		if err := os.WriteFile(d.File, header(segmentMagic, number), 0o600); err != nil {
			return did, err
		}
		did = append(did, d.File+" is now an empty segment")
	}
	return did, syncDir(dir)
}
