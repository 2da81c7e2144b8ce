package owner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// Disk keeps what a Seat must not forget: the view that it has accepted, and how new its copies are.
type Disk interface {
	// Load returns what was saved last, or nil when nothing was.
	Load() ([]byte, error)
	// Save replaces what is kept. When it returns nil, a loss of power leaves the new, and else the old or the new.
	Save(b []byte) error
}

// ErrDamaged is returned when the kept view cannot be read.
var ErrDamaged = errors.New("the kept view is damaged")

// File is a Disk in one file.
type File struct{ Path string }

// Load returns the file's contents, or nil when there is none.
func (f File) Load() ([]byte, error) {
	b, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && len(b) == 0 {
		return nil, fmt.Errorf("%s: %w: it is empty; remove it to join as a host without copies", f.Path, ErrDamaged)
	}
	return b, err
}

// Save writes a new file and puts it in the place of the old.
func (f File) Save(b []byte) error {
	if err := replace(f.Path, b); err != nil {
		return fmt.Errorf("keep the view in %s: %w", f.Path, err)
	}
	return nil
}

func replace(path string, b []byte) error {
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(b)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// role is as what a host has a copy, the better ones last. A copy is in doubt when its host's machine was started anew: unless the journal is
// made durable with each change, its last second may be missing, which another copy has.
type role byte

const (
	inDoubtAsRunnerUp role = iota
	inDoubtAsOwner
	asRunnerUp
	asOwner
)

func (r role) inDoubt() bool { return r < asRunnerUp }
func (r role) owner() bool   { return r == asOwner || r == inDoubtAsOwner }

func (r role) doubted() role {
	if r.owner() {
		return inDoubtAsOwner
	}
	return inDoubtAsRunnerUp
}

// claim says how new a copy of a shard is: it has all that was decided up to the end of an epoch, or while the host was the owner or the
// runner-up in it. Epoch 0: it is not whole.
type claim struct {
	epoch uint64
	role  role
}

// newer says whether c is a better copy than o.
func (c claim) newer(o claim) bool {
	return c.epoch > o.epoch || c.epoch == o.epoch && c.role > o.role
}

// claims are those of all shards.
type claims [store.Shards]claim

func (c *claims) append(b []byte) []byte {
	for i := range c {
		b = append(binary.AppendUvarint(b, c[i].epoch), byte(c[i].role))
	}
	return b
}

func readClaims(r *reader) (c claims) {
	for i := range c {
		c[i] = claim{r.uint(), role(r.byte())}
		if c[i].role > asOwner {
			r.fail("a role is unknown")
		}
	}
	return c
}

// keptVersion is the first byte of what is kept.
const keptVersion = 1

// durable stands for the machine when all that claims speak of survives a loss of power.
const durable = "*"

// encodeKept returns what is to be kept on a machine, named by its present run.
func encodeKept(v *view, c *claims, machine string) []byte {
	b := v.append([]byte{keptVersion}, v.id.Epoch)
	b = appendString(c.append(b), machine)
	return binary.BigEndian.AppendUint64(b, xxhash.Sum64(b))
}

// decodeKept reads what encodeKept returned; of nil it reads nothing. Claims of another run of the machine are in doubt.
func decodeKept(b []byte, machine string) (*view, claims, error) {
	if b == nil {
		return noView, claims{}, nil
	}
	fault := func(what string) (*view, claims, error) {
		return nil, claims{}, fmt.Errorf("%w: %s; remove it to join as a host without copies", ErrDamaged, what)
	}
	if b[0] != keptVersion {
		return fault(fmt.Sprintf("its version is %d and this daemon reads %d", b[0], keptVersion))
	}
	if len(b) < 9 || binary.BigEndian.Uint64(b[len(b)-8:]) != xxhash.Sum64(b[:len(b)-8]) {
		return fault("its sum is wrong")
	}
	r := &reader{b: b[1 : len(b)-8]}
	v, c := readView(r, noView), readClaims(r)
	kept := r.string()
	if r.err != nil {
		return fault(r.err.Error())
	}
	if kept != durable && (kept != machine || machine == "") {
		for i := range c {
			c[i].role = c[i].role.doubted()
		}
	}
	return v, c, nil
}
