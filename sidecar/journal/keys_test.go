package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

var (
	keyA = strings.Repeat("a1", keySize)
	keyB = strings.Repeat("b2", keySize)
)

// keys returns what a file with those lines holds.
func keys(t *testing.T, lines ...string) *Keys {
	t.Helper()
	k, err := LoadKeys(keyFile(t, 0o600, lines...))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func keyFile(t *testing.T, mode os.FileMode, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

const secret = "a session's secret, long enough to be looked for"

// holds says whether some file in dir has the secret in it.
func holds(t *testing.T, dir string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*-*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files are %v: %v", files, err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(secret)) {
			return true
		}
	}
	return false
}

func TestSealedDataIsNotToBeReadOnTheDisk(t *testing.T) {
	for name, k := range map[string]*Keys{"plain": nil, "sealed": keys(t, keyA)} {
		cfg := Config{Dir: t.TempDir(), Values: true, Keys: k}
		s, j := open(t, cfg)
		set(t, s, j, "in the snapshot", secret)
		if err := j.Snapshot(); err != nil {
			t.Fatal(err)
		}
		set(t, s, j, "in the segment", secret)
		crash(j)
		if got := holds(t, cfg.Dir); got != (k == nil) {
			t.Errorf("%s: the secret can be read: %t", name, got)
		}
		s, j = open(t, cfg)
		defer j.Close()
		if get(s, "in the snapshot") != secret || get(s, "in the segment") != secret {
			t.Errorf("%s: a value did not come back", name)
		}
	}
}

// TestTheKeyIsChanged from none to one, and to another: the first snapshot has all files sealed with it, and then the old one is
// not needed any more.
func TestTheKeyIsChanged(t *testing.T) {
	log, lines := quiet()
	cfg := Config{Dir: t.TempDir(), Values: true, Log: log}
	s, j := open(t, cfg)
	set(t, s, j, "k", secret)
	crash(j)
	for _, k := range []*Keys{keys(t, "# the first", keyA), keys(t, keyB, "", keyA)} {
		lines.Reset()
		cfg.Keys = k
		s, j = open(t, cfg)
		tick(j)
		if !strings.Contains(lines.String(), "all journal files are sealed with the current key") {
			t.Errorf("the log does not say that the key was changed: %s", lines)
		}
		set(t, s, j, "k", secret)
		crash(j)
		if holds(t, cfg.Dir) {
			t.Error("the secret can be read")
		}
	}
	cfg.Keys = keys(t, keyB)
	s, j = open(t, cfg)
	defer j.Close()
	if get(s, "k") != secret {
		t.Error("the value did not come back")
	}
}

func TestAMissingKeyIsNotDamage(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Values: true, Keys: keys(t, keyA)}
	cfg.Log, _ = quiet()
	s, j := open(t, cfg)
	set(t, s, j, "k", secret)
	crash(j)
	for want, k := range map[string]*Keys{"no key file is given": nil, "is not in the key file": keys(t, keyB)} {
		other := cfg
		other.Keys = k
		err := New(other, store.New(store.Limits{})).Open()
		var d *Damage
		if !errors.Is(err, ErrKey) || errors.As(err, &d) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), cfg.Keys.current().String()) {
			t.Errorf("open: %v", err)
		}
		if _, err := Check(cfg.Dir, k); !errors.Is(err, ErrKey) {
			t.Errorf("check: %v", err)
		}
		if did, err := Repair(cfg.Dir, k); !errors.Is(err, ErrKey) || len(did) > 0 {
			t.Errorf("repair did %q: %v", did, err)
		}
	}
	s, j = open(t, cfg)
	defer j.Close()
	if get(s, "k") != secret {
		t.Error("the value did not come back")
	}
}

// TestNoNonceIsUsedTwice also not when a write fails and something else is sealed in its place.
func TestNoNonceIsUsedTwice(t *testing.T) {
	k := keys(t, keyA)
	h := newHead(1, k)
	c, err := newCodec(h, k)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for range 3 { // each as after a failure
		for range 100 {
			frame := c.appendRecord(nil, []byte("record"))
			f, err := decodeFrame(frame, int64(len(frame)))
			if err != nil {
				t.Fatal(err)
			}
			nonce := string(frame[f.head : f.head+counterSize])
			if seen[nonce] {
				t.Fatalf("%x is used twice", nonce)
			}
			seen[nonce] = true
		}
	}
	if again := newHead(1, k); again.salt == h.salt {
		t.Error("two files have the same salt, and so the same key")
	}
}

func TestAKeyFileIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ path, want string }{
		"missing":         {filepath.Join(t.TempDir(), "none"), "no such file"},
		"open to others":  {keyFile(t, 0o640, keyA), "mode 0640"},
		"empty":           {keyFile(t, 0o600, "# nothing", ""), "no key in it"},
		"short":           {keyFile(t, 0o600, keyA, keyA[2:]), "line 2"},
		"not hexadecimal": {keyFile(t, 0o600, strings.Repeat("x", 64)), "line 1"},
	} {
		k, err := LoadKeys(c.path)
		if err == nil || !strings.Contains(err.Error(), c.want) || k != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), keyA[2:]) || strings.Contains(err.Error(), "xxx")) {
			t.Errorf("%s: the error tells a key: %v", name, err)
		}
	}
}

// TestASealedRecordThatWasChangedIsDamage though its checksum was made right.
func TestASealedRecordThatWasChangedIsDamage(t *testing.T) {
	k := keys(t, keyA)
	c, err := newCodec(newHead(1, k), k)
	if err != nil {
		t.Fatal(err)
	}
	frame := c.appendRecord(nil, []byte("record"))
	f, err := decodeFrame(frame, int64(len(frame)))
	if err != nil {
		t.Fatal(err)
	}
	frame[len(frame)-1] ^= 1
	frame = c.sum(frame, 0)
	if _, err := c.open(frame[f.head:]); !errors.Is(err, errDamaged) {
		t.Errorf("it was opened: %v", err)
	}
}

// FuzzLoadKeys: whatever a file of keys holds, it is keys or an error, and the error tells nothing of a key.
func FuzzLoadKeys(f *testing.F) {
	f.Add([]byte(keyA + "\n# old\n\n  " + keyB + "\r\n"))
	f.Add([]byte(keyA[:63]))
	f.Add([]byte(keyA + "zz"))
	f.Add([]byte("#"))
	f.Fuzz(func(t *testing.T, content []byte) {
		k, err := LoadKeys(keyFile(t, 0o600, string(content)))
		if (k == nil) != (err != nil) {
			t.Fatalf("%v and %v", k, err)
		}
		if err == nil {
			if len(k.ids) == 0 || len(k.keys[k.current()]) != keySize {
				t.Fatalf("loaded without a key: %v", k.ids)
			}
			return
		}
		for line := range bytes.Lines(content) {
			const told = 16
			if line = bytes.TrimSpace(line); len(line) >= told && bytes.Contains([]byte(err.Error()), line[:told]) {
				t.Fatalf("the error quotes the file: %v", err)
			}
		}
	})
}
