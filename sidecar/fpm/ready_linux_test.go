package fpm

import (
	"io"
	"net"
	"path/filepath"
	"testing"
)

// socketPair returns both ends of a connected Unix socket.
func socketPair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if ours, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if theirs, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

func TestConnectionIsReadyWhenItsPeerWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(ours, theirs net.Conn)
		want   bool
	}{
		"nothing sent":       {func(_, _ net.Conn) {}, true},
		"all taken":          {func(o, p net.Conn) { io.WriteString(o, "begin"); io.CopyN(io.Discard, p, 5) }, true},
		"not taken":          {func(o, _ net.Conn) { io.WriteString(o, "begin") }, false},
		"taken in part":      {func(o, p net.Conn) { io.WriteString(o, "begin"); io.CopyN(io.Discard, p, 2) }, false},
		"peer spoke":         {func(_, p net.Conn) { io.WriteString(p, "late") }, false},
		"peer closed":        {func(_, p net.Conn) { p.Close() }, false},
		"peer closed unread": {func(o, p net.Conn) { io.WriteString(o, "begin"); p.Close() }, false},
		"closed here":        {func(o, _ net.Conn) { o.Close() }, false},
	} {
		ours, theirs := socketPair(t)
		tt.before(ours, theirs)
		if got := ready(ours); got != tt.want {
			t.Errorf("%s: ready is %v", name, got)
		}
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if ready(a) {
		t.Error("a connection that is no socket is ready")
	}
}
