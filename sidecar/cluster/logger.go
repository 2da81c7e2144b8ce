package cluster

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	linesEvery = 10 * time.Second
	maxLines   = 20 // of memberlist in linesEvery: anybody who can reach its port can make it complain
)

// memberlistLog takes memberlist's lines, which begin with their level in brackets, into the log.
type memberlistLog struct {
	log *slog.Logger
	now func() time.Time

	mu       sync.Mutex
	until    time.Time // end of the period; guarded by mu
	lines    int       // in the period; guarded by mu
	unlogged int       // since the last line; guarded by mu
}

// levels are memberlist's. What is an error to it often is no more than a host that is down.
var levels = []struct {
	mark  string
	level slog.Level
}{
	{"[DEBUG]", slog.LevelDebug},
	{"[INFO]", slog.LevelInfo},
	{"[WARN]", slog.LevelInfo},
	{"[ERR]", slog.LevelWarn},
	{"[ERROR]", slog.LevelWarn},
}

// Write takes one line.
func (l *memberlistLog) Write(line []byte) (int, error) {
	level, text := slog.LevelInfo, bytes.TrimSpace(line)
	for _, x := range levels {
		if rest, ok := bytes.CutPrefix(text, []byte(x.mark)); ok {
			level, text = x.level, bytes.TrimSpace(rest)
			break
		}
	}
	text = bytes.TrimPrefix(text, []byte("memberlist: "))
	if !l.log.Enabled(context.Background(), level) {
		return len(line), nil
	}
	if unlogged, ok := l.admit(); ok {
		l.log.Log(context.Background(), level, "gossip", "said", string(text), "unlogged", unlogged)
	}
	return len(line), nil
}

// admit counts a line and says whether it is logged, and how many were not before it.
func (l *memberlistLog) admit() (unlogged int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.now(); !at.Before(l.until) {
		l.until, l.lines = at.Add(linesEvery), 0
	}
	if l.lines++; l.lines > maxLines {
		l.unlogged++
		return 0, false
	}
	unlogged, l.unlogged = l.unlogged, 0
	return unlogged, true
}
