package store

import (
	"fmt"
	"testing"
)

func BenchmarkGet(b *testing.B) {
	d := newDesk(b)
	d.set("key", "a value of some twenty bytes", 0)
	c := Command{Op: OpGet, Now: d.now, Space: d.in, Key: []byte("key")}
	b.ReportAllocs()
	for b.Loop() {
		d.s.Apply(&c)
	}
}

func BenchmarkSet(b *testing.B) {
	for _, size := range []int{20, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			d := newDesk(b)
			c := Command{Op: OpSet, Now: d.now, Space: d.in, Key: []byte("key"), Value: make([]byte, size), TTL: 60_000}
			b.ReportAllocs()
			for b.Loop() {
				c.packed = nil
				d.s.Apply(&c)
			}
		})
	}
}

// BenchmarkSession is a locked open and a commit with release of 4 KiB, as each PHP request makes them.
func BenchmarkSession(b *testing.B) {
	d := newDesk(b)
	open := Command{Op: OpSessionOpen, Now: d.now, Space: d.in, Key: []byte("0123456789abcdef"), Token: []byte("0123456789abcdef0123456789abcdef"), Lease: 30_000, Who: &Who{}}
	commit := Command{Op: OpSessionCommit, Now: d.now, Space: d.in, Key: open.Key, Token: open.Token, Value: make([]byte, 4096), TTL: 1_440_000, Release: true}
	b.ReportAllocs()
	for b.Loop() {
		commit.Fence = d.s.Apply(&open).Fence
		if r := d.s.Apply(&commit); !r.Released {
			b.Fatal("the commit did not release")
		}
	}
}
