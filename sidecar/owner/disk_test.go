package owner

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func kept() (*view, *claims) {
	v := newView(7, []seated{{ID: "b", Boot: "1"}, {ID: "a", Boot: "2", Cold: true}})
	var c claims
	c[0], c[255] = claim{7, asOwner}, claim{6, asRunnerUp}
	return v, &c
}

func TestTheViewIsKept(t *testing.T) {
	f := File{filepath.Join(t.TempDir(), "view")}
	if b, err := f.Load(); b != nil || err != nil {
		t.Fatalf("before it was saved there is %v, %v", b, err)
	}
	v, c := kept()
	for range 2 {
		if err := f.Save(encodeKept(v, c, "m")); err != nil {
			t.Fatal(err)
		}
	}
	b, err := f.Load()
	if err != nil {
		t.Fatal(err)
	}
	got, claims, err := decodeKept(b, "m")
	if err != nil || got.id != v.id || got.String() != v.String() || claims != *c {
		t.Errorf("it has %v (%v), %v", got, got.id, err)
	}
	if left, _ := filepath.Glob(f.Path + "*"); len(left) != 1 {
		t.Errorf("there are %v", left)
	}
}

func TestADamagedViewIsAnError(t *testing.T) {
	v, c := kept()
	whole := encodeKept(v, c, "m")
	for i := range whole {
		b := append([]byte(nil), whole...)
		b[i] ^= 4
		if _, _, err := decodeKept(b, "m"); !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d of %d is wrong: %v", i, len(b), err)
		}
	}
	for n := 1; n < len(whole); n++ {
		if _, _, err := decodeKept(whole[:n], "m"); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	f := File{filepath.Join(t.TempDir(), "view")}
	if err := os.WriteFile(f.Path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Load(); !errors.Is(err, ErrDamaged) {
		t.Errorf("an empty file: %v", err)
	}
}
