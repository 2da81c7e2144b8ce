package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// desk is the pages over a store, with what they show made wrong or right by a test.
type desk struct {
	t       *testing.T
	arb     arbiter.Arbiter
	ready   error
	statusE error
	h       http.Handler
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t}
	d.arb = arbiter.NewLocal(store.New(store.Limits{}), func() int64 { return time.Now().UnixMilli() }, nil)
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "coatcheck_test_total", Help: "h"}, func() float64 { return 7 }))
	d.h = New(Config{
		Arbiter: d, Metrics: reg, Log: slog.New(slog.DiscardHandler),
		Ready: func() error { return d.ready },
		Status: func(context.Context) (wire.Pairs, error) {
			return wire.Pairs{{Key: "version", Value: "test"}}, d.statusE
		},
	})
	return d
}

// Do is the pages' arbiter.
func (d *desk) Do(ctx context.Context, c *store.Command) (store.Result, error) {
	if d.statusE != nil {
		return store.Result{}, d.statusE
	}
	return d.arb.Do(ctx, c)
}

func (d *desk) do(c store.Command) {
	d.t.Helper()
	c.Space = store.Space{Tenant: "default", Bucket: "b"}
	if _, err := d.arb.Do(d.t.Context(), &c); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) get(method, path string) (int, string) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, nil)
	r.Host = "127.0.0.1:8132"
	d.h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// rows reads a page that is a list.
func (d *desk) rows(path string) []map[string]any {
	d.t.Helper()
	code, body := d.get("GET", path)
	var rows []map[string]any
	if err := json.Unmarshal([]byte(body), &rows); code != 200 || err != nil || rows == nil {
		d.t.Fatalf("%s: %d, %v, %s", path, code, err, body)
	}
	return rows
}

func TestHealthAndReadiness(t *testing.T) {
	d := newDesk(t)
	if code, body := d.get("GET", "/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("healthz: %d %q", code, body)
	}
	if code, body := d.get("GET", "/readyz"); code != 200 || body != "ready\n" {
		t.Errorf("readyz: %d %q", code, body)
	}
	d.ready = errors.New("the daemon is shutting down")
	if code, body := d.get("GET", "/readyz"); code != 503 || !strings.Contains(body, "shutting down") {
		t.Errorf("readyz of one that is not: %d %q", code, body)
	}
	if code, _ := d.get("GET", "/healthz"); code != 200 {
		t.Errorf("healthz of one that is not ready: %d", code)
	}
}

func TestPagesThatAreNot(t *testing.T) {
	d := newDesk(t)
	for path, want := range map[string]int{"GET /": 404, "GET /v1": 404, "GET /v1/locks/x": 404, "POST /v1/locks": 405, "DELETE /v1/sessions": 405, "POST /healthz": 405} {
		method, path, _ := strings.Cut(path, " ")
		if code, _ := d.get(method, path); code != want {
			t.Errorf("%s %s: %d, want %d", method, path, code, want)
		}
	}
}

func TestMetricsAndStatus(t *testing.T) {
	d := newDesk(t)
	if code, body := d.get("GET", "/metrics"); code != 200 || !strings.Contains(body, "coatcheck_test_total 7") {
		t.Errorf("metrics: %d %s", code, body)
	}
	if code, body := d.get("GET", "/v1/status"); code != 200 || strings.TrimSpace(body) != `{"version":"test"}` {
		t.Errorf("status: %d %s", code, body)
	}
}

func TestMembers(t *testing.T) {
	d := newDesk(t)
	if code, body := d.get("GET", "/v1/members"); code != 404 || !strings.Contains(body, "alone") {
		t.Errorf("members of a daemon that is alone: %d %s", code, body)
	}
	d.h = New(Config{Metrics: prometheus.NewRegistry(), Members: func(context.Context) (wire.Pairs, error) {
		return wire.Pairs{{Key: "cluster", Value: "shop"}, {Key: "members", Value: []wire.Pairs{{{Key: "alive", Value: true}}}}}, d.statusE
	}})
	if code, body := d.get("GET", "/v1/members"); code != 200 || strings.TrimSpace(body) != `{"cluster":"shop","members":[{"alive":true}]}` {
		t.Errorf("members: %d %s", code, body)
	}
	d.statusE = errors.New("it cannot be told")
	if code, _ := d.get("GET", "/v1/members"); code != 503 {
		t.Errorf("members that cannot be told: %d", code)
	}
}

func TestAFailureIsNotAnEmptyList(t *testing.T) {
	d := newDesk(t)
	d.statusE = arbiter.ErrUnreachable
	for _, path := range []string{"/v1/status", "/v1/locks", "/v1/sessions"} {
		if code, body := d.get("GET", path); code != 503 || !strings.Contains(body, "unknown") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

func TestLocksAndSessions(t *testing.T) {
	d := newDesk(t)
	if len(d.rows("/v1/locks")) != 0 || len(d.rows("/v1/sessions")) != 0 {
		t.Error("an empty store has something")
	}
	who := &store.Who{PID: 42, SAPI: "fpm-fcgi", Script: "/srv/a.php"}
	d.do(store.Command{Op: store.OpSessionCommit, Key: []byte("abcdefSECRET"), Value: []byte("12345"), TTL: 60_000})
	d.do(store.Command{Op: store.OpSessionOpen, Key: []byte("abcdefSECRET"), Token: []byte("012345SECRET"), Lease: 30_000, Bound: true, Who: who})
	d.do(store.Command{Op: store.OpLockAcquire, Key: []byte("nightly"), Token: []byte("012345SECRET"), Shared: true, Who: who})
	byKind := map[any]map[string]any{}
	for _, row := range d.rows("/v1/locks") {
		byKind[row["kind"]] = row
	}
	s, l := byKind["session"], byKind["lock"]
	if s == nil || l == nil {
		t.Fatalf("the locks are %v", byKind)
	}
	if s["name"] != "abcdef…" || s["tenant"] != "default" || s["bucket"] != "b" || s["shared"] != false {
		t.Errorf("the session's lock: %v", s)
	}
	if l["name"] != "nightly" || l["shared"] != true {
		t.Errorf("the named lock: %v", l)
	}
	holder := s["holders"].([]any)[0].(map[string]any)
	if holder["token"] != "012345…" || holder["pid"] != 42.0 || holder["sapi"] != "fpm-fcgi" || holder["script"] != "/srv/a.php" || holder["bound"] != true || holder["fence"].(float64) <= 0 {
		t.Errorf("the holder: %v", holder)
	}
	if left, ok := holder["lease_left_ms"].(float64); !ok || left <= 0 || left > 30_000 {
		t.Errorf("its lease ends in %v ms", holder["lease_left_ms"])
	}
	if _, has := l["holders"].([]any)[0].(map[string]any)["lease_left_ms"]; has {
		t.Error("a lock without expiry has an end")
	}
	sessions := d.rows("/v1/sessions")
	if len(sessions) != 1 || sessions[0]["id"] != "abcdef…" || sessions[0]["size"] != 5.0 || sessions[0]["locked"] != true || sessions[0]["prefix"] != "b" {
		t.Errorf("the sessions: %v", sessions)
	}
	for _, path := range []string{"/v1/locks", "/v1/sessions"} {
		if _, body := d.get("GET", path); strings.Contains(body, "SECRET") {
			t.Errorf("%s shows a credential in full: %s", path, body)
		}
	}
}

func TestTheLengthOfLists(t *testing.T) {
	d := newDesk(t)
	for i := range 1200 {
		d.do(store.Command{Op: store.OpLockAcquire, Key: fmt.Appendf(nil, "l%d", i), Token: []byte("t")})
	}
	for query, want := range map[string]int{"": 1000, "?limit=5": 5, "?limit=100000": 1200, "?limit=-1": 1000, "?limit=x": 1000, "?limit=0": 1000} {
		if n := len(d.rows("/v1/locks" + query)); n != want {
			t.Errorf("/v1/locks%s has %d rows, want %d", query, n, want)
		}
	}
}

func TestServerIsNotHeldUp(t *testing.T) {
	s := Server(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if s.ReadHeaderTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 {
		t.Errorf("a client may hold it up: %+v", s)
	}
}

// TestOnlyALoopbackHostIsServed: a page whose own name was made to point to the address gets nothing.
func TestOnlyALoopbackHostIsServed(t *testing.T) {
	d := newDesk(t)
	ask := func(host string, at net.Addr) int {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/locks", nil)
		r.Host = host
		d.h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, at)))
		return w.Code
	}
	tcp := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8132}
	for _, host := range []string{"localhost", "LOCALHOST:8132", "127.0.0.1", "127.0.0.1:8132", "127.1.2.3:80", "[::1]:8132", "[::1]"} {
		if code := ask(host, tcp); code != http.StatusOK {
			t.Errorf("%s: %d", host, code)
		}
	}
	for _, host := range []string{"", "evil.example", "evil.example:8132", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1:8132", "[::2]:8132", "127.0.0.1:8132:1"} {
		if code := ask(host, tcp); code != http.StatusMisdirectedRequest {
			t.Errorf("%s: %d", host, code)
		}
		if code := ask(host, &net.UnixAddr{Net: "unix", Name: "/run/admin"}); code != http.StatusOK {
			t.Errorf("%s on a Unix socket: %d", host, code)
		}
	}
}
