package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/fpm"
)

// cookies is how many sessions each visitor has when sessions are distinct.
const cookies = 32

// distinctPages measures a trivial page when no two requests at a time share a session.
func distinctPages(ctx context.Context, m *machine) (*table, error) {
	floor := contender{Name: noSession, pool: "files", plain: true}
	return pages(ctx, m, append([]contender{floor}, m.contenders...), "/session.php", cookies, table{
		Title: "page, distinct cookies", Baseline: redisUnlocked,
		aim: func(t *table) aim {
			ours := t.row(coatcheck)
			return aim{"the locked page at no less than phpredis' speed without a lock (ratio)", ours.Ratio, ours.Ratio >= 1}
		},
		What: "a page that adds 1 to a number in its session; 8 visitors without a pause, 8 php-fpm workers, every visitor with sessions of its own",
	})
}

// sharedPages measures the same page when all requests share one session.
func sharedPages(ctx context.Context, m *machine) (*table, error) {
	return pages(ctx, m, m.contenders, "/session.php", 0, table{
		Title: "page, one cookie", Baseline: redisUnlocked,
		What: "the same page, the 8 visitors share one session",
	})
}

// heldPages measures that with a page that keeps the session for 10 ms.
func heldPages(ctx context.Context, m *machine) (*table, error) {
	return pages(ctx, m, m.contenders, "/session.php?hold_us=10000", 0, table{
		Title: "page, one cookie, 10 ms inside", Baseline: redisLocked,
		What: "the same page, which keeps the session for 10 ms, asleep; a lock allows 100 a second at most",
	})
}

// pages measures a page of each contender. Each visitor has so many sessions, or all share one when it is 0.
func pages(ctx context.Context, m *machine, among []contender, path string, perVisitor int, t table) (*table, error) {
	t.Command = fmt.Sprintf("GET %s (tests/bench/www) by %d visitors for %v", path, workers, m.each)
	t.Figure = "requests/s"
	t.Lost = "updates lost"
	all, err := interleave(ctx, m, t.Title, among, func(ctx context.Context, c contender, each time.Duration) (sample, error) {
		front, err := fpm.NewFront(fpm.Config{
			Address: "unix:" + filepath.Join(m.dir, "fpm-"+c.pool+".sock"),
			Docroot: filepath.Join(m.root, "tests/bench/www"),
			Logger:  slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			return sample{}, err
		}
		defer front.Close()
		page := path
		if c.plain {
			page = "/plain.php"
		}
		target, err := url.Parse("http://bench" + page)
		if err != nil {
			return sample{}, err
		}
		l := load{front: front, target: target}
		return l.run(ctx, visitors(perVisitor), each, !c.plain), nil
	})
	if err != nil {
		return nil, err
	}
	return newTable(all, t), nil
}

// visitors returns the session ids of each visitor.
func visitors(each int) [][]string {
	ids := make([][]string, workers)
	shared := freshPrefix()
	for i := range ids {
		if each == 0 {
			ids[i] = []string{shared}
			continue
		}
		prefix := freshPrefix()
		for n := range each {
			ids[i] = append(ids[i], prefix+strconv.Itoa(n))
		}
	}
	return ids
}

// load sends requests to php-fpm through our own front, called directly: no web server's or HTTP client's work
// is measured with it, and it is the same for all.
type load struct {
	front  *fpm.Front
	target *url.URL
}

// run has all visitors ask, each with one request at a time and its sessions in turn. When counted, the page's
// answer is the number of visits, from which follows how many were lost.
func (l *load) run(ctx context.Context, ids [][]string, each time.Duration, counted bool) sample {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts := make([]sample, len(ids))
	began := time.Now()
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() { parts[i] = l.visit(ctx, ids[i], began.Add(each)) })
	}
	wg.Wait()
	var all sample
	took := time.Since(began)
	for _, part := range parts {
		all.times = append(all.times, part.times...)
		all.done += part.done
		all.failed += part.failed
	}
	all.figure = float64(all.done) / took.Seconds()
	if counted {
		all.lost = all.done - l.visits(ctx, ids)
	}
	return all
}

// visit is one visitor.
func (l *load) visit(ctx context.Context, ids []string, end time.Time) (s sample) {
	for i := 0; ctx.Err() == nil; i++ {
		began := time.Now()
		if began.After(end) {
			break
		}
		if a := l.get(ctx, ids[i%len(ids)]); a.status == http.StatusOK {
			s.done++
			s.times = append(s.times, time.Since(began))
		} else {
			s.failed++
		}
	}
	return s
}

// visits returns how many visits the sessions count.
func (l *load) visits(ctx context.Context, ids [][]string) int {
	seen := make(map[string]bool)
	total := 0
	for _, mine := range ids {
		for _, id := range mine {
			if seen[id] {
				continue
			}
			seen[id] = true
			n, err := strconv.Atoi(l.get(ctx, id).body.String())
			if err == nil {
				total += n - 1 // this look counts itself
			}
		}
	}
	return total
}

func (l *load) get(ctx context.Context, id string) *answer {
	r := &http.Request{
		Method: http.MethodGet, URL: l.target, Host: l.target.Host, RequestURI: l.target.RequestURI(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: "127.0.0.1:1",
		Header: http.Header{"Cookie": {"PHPSESSID=" + id}}, Body: http.NoBody,
	}
	a := &answer{header: make(http.Header)}
	l.front.ServeHTTP(a, r.WithContext(ctx))
	return a
}

// answer takes in what the front writes.
type answer struct {
	header http.Header
	status int
	body   strings.Builder
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}
