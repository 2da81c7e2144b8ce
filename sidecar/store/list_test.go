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
