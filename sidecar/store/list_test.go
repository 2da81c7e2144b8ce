package store

import (
	"fmt"
	"testing"
)

func TestListsAreOfOneTenantAndOfWhatBeginsSo(t *testing.T) {
	d := newDesk(t)
	for _, tenant := range []string{"default", "other"} {
		for _, id := range []string{"aa1", "aa2", "b"} {
			in := Space{Tenant: tenant, Bucket: id}
			d.do(Command{Op: OpSessionCommit, Space: in, Key: []byte(id), Value: []byte("x"), TTL: 1000})
			d.do(Command{Op: OpSessionOpen, Space: in, Key: []byte(id), Token: []byte("t"), Lease: 1000})
			d.do(Command{Op: OpLockAcquire, Space: in, Key: []byte(id), Token: []byte("t")})
		}
	}
	for _, c := range []struct {
		tenant, match string
		sessions      int
	}{
		{"default", "", 3}, {"default", "aa", 2}, {"other", "b", 1}, {"nobody", "", 0}, {"", "", 6}, {"", "aa1", 2}, {"", "aa11", 0},
	} {
		list := Command{Space: Space{Tenant: c.tenant, Bucket: "of no meaning here"}, Match: []byte(c.match), Limit: 100}
		t.Run(fmt.Sprintf("%s %s", c.tenant, c.match), func(t *testing.T) {
			list.Op = OpListSession
			if got := d.do(list).Sessions; len(got) != c.sessions {
				t.Errorf("the sessions are %+v, want %d", got, c.sessions)
			}
			list.Op = OpListHeld
			if got := d.do(list).Locks; len(got) != 2*c.sessions {
				t.Errorf("the held locks are %+v, want %d", got, 2*c.sessions)
			}
		})
	}
}

// TestAListingLooksOnlyAtWhatItIsAbout: not at other tenants' entries, and at no more than it may list. What was looked at shows, for it lost its
// expired hold.
func TestAListingLooksOnlyAtWhatItIsAbout(t *testing.T) {
	d := newDesk(t)
	for _, tenant := range []string{"one", "other"} {
		for i, n := 0, 0; n < 50; i++ {
			name := fmt.Append(nil, "l", i)
			if ShardOfKey(name) != 7 {
				continue
			}
			n++
			for token, lease := range map[string]int64{"short": 1000, "long": 0} {
				d.do(Command{Op: OpLockAcquire, Space: Space{Tenant: tenant}, Key: name, Token: []byte(token), Lease: lease, Shared: true})
			}
		}
	}
	d.now += 1000
	lookedAt := func(tenant string) (n int) {
		for _, l := range d.s.shards[7].spaces[Space{Tenant: tenant}].locks {
			if len(l.holds) == 1 {
				n++
			}
		}
		return n
	}
	if got := d.do(Command{Op: OpListHeld, Space: Space{Tenant: "one"}, Limit: 5}).Locks; len(got) != 5 || lookedAt("one") != 5 {
		t.Errorf("%d are listed, %d were looked at, want 5", len(got), lookedAt("one"))
	}
	if got := d.do(Command{Op: OpListHeld, Space: Space{Tenant: "one"}, Limit: 500}).Locks; len(got) != 50 || lookedAt("other") != 0 {
		t.Errorf("%d are listed, %d of another tenant's were looked at", len(got), lookedAt("other"))
	}
}
