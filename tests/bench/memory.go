package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

const (
	sessionLen = 1 << 10 // bytes of each session
	batch      = 256     // requests that are sent together
	ttl        = 24 * time.Hour
	rewritten  = ", each written twice"
)

// memory measures what a session costs in resident memory: each server is filled with so many of 1 KiB.
func memory(ctx context.Context, m *machine) ([]*table, error) {
	t := table{
		Title: "memory",
		What: fmt.Sprintf("%d sessions of %d incompressible bytes, ids of 32, with expiry: what the server's resident memory grew by, "+
			"after all were written once, and again when all were replaced by others", m.sessions, sessionLen),
		Command:  m.command(),
		Figure:   "bytes/session",
		Baseline: redis,
		Lost:     "not kept",
		aim: func(t *table) aim {
			r := t.row(coatcheck + rewritten).Ratio // the worse of the two: garbage is in it
			return aim{"a session of 1 KiB in at most 1.3 of Redis' resident memory (ratio)", r, r <= 1.3}
		},
	}
	var all []series
	for _, f := range []struct {
		name, server string
		fill         func(context.Context, *machine) error
	}{
		{redis, "redis-server", fillRedis},
		{coatcheck, "coatcheck", fillCoatcheck},
	} {
		fmt.Fprintf(os.Stderr, "memory: %s\n", f.name)
		pid := m.pid(f.server)
		before, err := residentBytes(pid)
		if err != nil {
			return nil, err
		}
		for _, name := range []string{f.name, f.name + rewritten} {
			if err := f.fill(ctx, m); err != nil {
				return nil, fmt.Errorf("fill %s: %w", f.name, err)
			}
			now, err := residentBytes(pid)
			if err != nil {
				return nil, err
			}
			all = append(all, series{contender: contender{Name: name}, samples: []sample{
				{figure: float64(now-before) / float64(m.sessions), done: m.sessions},
			}})
		}
	}
	return []*table{newTable(all, t)}, nil
}

// residentBytes returns a process' resident memory.
func residentBytes(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseInt(kib, 10, 64)
	return n << 10, err
}

// fillRedis stores the sessions as phpredis does.
func fillRedis(ctx context.Context, m *machine) error {
	appendSet := func(b []byte, id string, data []byte) []byte {
		b = fmt.Appendf(b, "*4\r\n$5\r\nSETEX\r\n$%d\r\nPHPREDIS_SESSION:%s\r\n", len(id)+17, id)
		seconds := strconv.Itoa(int(ttl.Seconds()))
		return fmt.Appendf(b, "$%d\r\n%s\r\n$%d\r\n%s\r\n", len(seconds), seconds, len(data), data)
	}
	readAnswer := func(r *bufio.Reader) error {
		line, err := r.ReadString('\n')
		if err == nil && line != "+OK\r\n" {
			err = fmt.Errorf("redis answered %q", line)
		}
		return err
	}
	return fill(ctx, m, "redis.sock", nil, appendSet, readAnswer)
}

// fillCoatcheck stores the sessions through the client protocol.
func fillCoatcheck(ctx context.Context, m *machine) error {
	hello := wire.AppendRequest(nil, 0, "hello", wire.Pairs{
		{Key: "version", Value: wire.Version}, {Key: "client", Value: "bench"},
	})
	appendCommit := func(b []byte, id string, data []byte) []byte {
		return wire.AppendRequest(b, 1, "session.commit", wire.Pairs{
			{Key: "id", Value: id}, {Key: "data", Value: data}, {Key: "ttl_ms", Value: ttl.Milliseconds()},
		})
	}
	readAnswer := func(r *bufio.Reader) error {
		head, err := r.Peek(4)
		if err != nil {
			return err
		}
		frame := make([]byte, 4+int(head[0])<<24+int(head[1])<<16+int(head[2])<<8+int(head[3]))
		if _, err := io.ReadFull(r, frame); err != nil {
			return err
		}
		_, _, err = wire.DecodeResponse(frame[4:])
		return err
	}
	return fill(ctx, m, "coatcheck.sock", hello, appendCommit, readAnswer)
}

// fill sends the sessions in batches and reads an answer to each, and one to the greeting if there is one.
func fill(
	ctx context.Context, m *machine, socket string, greeting []byte,
	appendSession func(b []byte, id string, data []byte) []byte, readAnswer func(*bufio.Reader) error,
) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", filepath.Join(m.dir, socket))
	if err != nil {
		return err
	}
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 64<<10)
	if greeting != nil {
		if _, err := conn.Write(greeting); err != nil {
			return err
		}
		if err := readAnswer(r); err != nil {
			return err
		}
	}
	data := make([]byte, sessionLen)
	var out []byte
	for stored := 0; stored < m.sessions; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n := min(batch, m.sessions-stored)
		out = out[:0]
		for i := range n {
			rand.Read(data) //nolint:errcheck // it never fails
			out = appendSession(out, fmt.Sprintf("%032d", stored+i), data)
		}
		if _, err := conn.Write(out); err != nil {
			return err
		}
		for range n {
			if err := readAnswer(r); err != nil {
				return err
			}
		}
		stored += n
	}
	return nil
}
