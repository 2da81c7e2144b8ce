package cluster

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestTheNodeIDIsKept(t *testing.T) {
	d := disk{t.TempDir()}
	first, err := d.loadNode()
	if err != nil || !validID(first) {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := d.loadNode(); err != nil || again != first {
		t.Errorf("then %q, %v", again, err)
	}
	var none disk
	a, _ := none.loadNode()
	b, _ := none.loadNode()
	if a == b {
		t.Error("two starts without a directory have one id")
	}
}

func TestTheMemberSetIsKept(t *testing.T) {
	d := disk{t.TempDir()}
	s := setOf("a", "b")
	s.lost(fakeID("b"), noon)
	s.met(greets(host("c", "1")), noon)
	s.lost(fakeID("c"), noon)
	if err := s.forget(fakeID("c"), noon); err != nil {
		t.Fatal(err)
	}
	want := s.roster(noon)
	if err := d.saveMembers("shop", want); err != nil {
		t.Fatal(err)
	}
	got, err := d.loadMembers("shop")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	again := setOf()
	again.merge(got, noon)
	again.expect(t, "after a start", "-a -b")
	if _, err := d.loadMembers("blog"); err == nil || !strings.Contains(err.Error(), `belongs to cluster "shop"`) {
		t.Errorf("another cluster: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(d.dir, "*.new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDamagedFilesSayWhichAndWhatToDo(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"a bit":        func(b []byte) []byte { b[len(b)/2+len(b)/4] ^= 1; return b },
		"the end":      func(b []byte) []byte { return b[:len(b)-2] },
		"emptied":      func([]byte) []byte { return nil },
		"a new format": func(b []byte) []byte { return []byte(strings.Replace(string(b), " 1 ", " 2 ", 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			d := disk{t.TempDir()}
			if _, err := d.loadNode(); err != nil {
				t.Fatal(err)
			}
			if err := d.saveMembers("shop", setOf("a").roster(noon)); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{nodeFile, membersFile} {
				b, err := os.ReadFile(d.path(file))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(d.path(file), damage(b), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, nodeErr := d.loadNode()
			_, membersErr := d.loadMembers("shop")
			for file, err := range map[string]error{nodeFile: nodeErr, membersFile: membersErr} {
				if err == nil || !strings.Contains(err.Error(), d.path(file)+" is damaged") || !strings.Contains(err.Error(), "delete it") {
					t.Errorf("%s: %v", file, err)
				}
			}
		})
	}
}

func FuzzMembersFile(f *testing.F) {
	f.Add([]byte(`{"cluster":"shop","members":[],"gone":[]}`))
	f.Add([]byte(`{"cluster":"shop","members":[{"id":"0123456789abcdef","boot":"0123456789abcdef","name":"a","addr":"a:1","gossip":"a:2"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := disk{"/d"}.decodeMembers(b, "shop")
		if err != nil {
			return
		}
		s := setOf()
		s.merge(r, noon)
		if err := s.roster(noon).check(); err != nil {
			t.Fatalf("%s is taken, and would be refused by peers: %v", b, err)
		}
	})
}
