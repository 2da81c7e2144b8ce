// Package admin serves health, metrics and lists over HTTP, for operators and monitors.
//
// It changes nothing. It has no password: whoever reaches its address may read it, so it belongs on a
// loopback address or a Unix socket. A request over TCP must name a loopback host: a page in a browser of the same machine
// whose own name was made to point to the address (DNS rebinding) is refused. Session ids and tokens are credentials and are shown shortened.
package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/roster"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// Config is what the pages are made from.
type Config struct {
	Arbiter arbiter.Arbiter
	Metrics prometheus.Gatherer
	Ready   func() error                              // nil when the daemon serves
	Status  func(context.Context) (wire.Pairs, error) // what server.status answers
	Members func(context.Context) (wire.Pairs, error) // what cluster.members answers; nil: there is no cluster
	Log     *slog.Logger
}

// The number of entries in a list: by default, and at most.
const (
	listed    = 1_000
	maxListed = 100_000
)

// New returns the handler of all pages.
func New(cfg Config) http.Handler {
	p := &pages{cfg}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", p.health)
	mux.HandleFunc("GET /readyz", p.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /v1/status", p.status)
	mux.HandleFunc("GET /v1/locks", p.locks)
	mux.HandleFunc("GET /v1/sessions", p.sessions)
	mux.HandleFunc("GET /v1/members", p.members)
	return local(mux)
}

// local refuses requests that came over TCP and name a host which is not this machine itself.
func local(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); (!ok || at.Network() != "unix") && !isLoopback(r.Host) {
			http.Error(w, fmt.Sprintf("the host %q is not a loopback one: ask for localhost, 127.0.0.1 or [::1]", r.Host), http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isLoopback says whether a Host header, with or without a port, names this machine itself.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

type pages struct{ cfg Config }

// health says that the process answers.
func (p *pages) health(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) }

// ready says whether the daemon serves, and why not.
func (p *pages) ready(w http.ResponseWriter, _ *http.Request) {
	if err := p.cfg.Ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Write([]byte("ready\n"))
}

func (p *pages) status(w http.ResponseWriter, r *http.Request) {
	status, err := p.cfg.Status(r.Context())
	p.answer(w, status, err)
}

func (p *pages) members(w http.ResponseWriter, r *http.Request) {
	if p.cfg.Members == nil {
		http.Error(w, "this daemon is alone: cluster.bind is not set", http.StatusNotFound)
		return
	}
	members, err := p.cfg.Members(r.Context())
	p.answer(w, members, err)
}

func (p *pages) locks(w http.ResponseWriter, r *http.Request) {
	res, now, err := p.list(r, store.OpListHeld)
	list := make([]wire.Pairs, 0, len(res.Locks))
	for _, l := range res.Locks {
		list = append(list, roster.Lock(l, now))
	}
	p.answer(w, list, err)
}

func (p *pages) sessions(w http.ResponseWriter, r *http.Request) {
	res, now, err := p.list(r, store.OpListSession)
	list := make([]wire.Pairs, 0, len(res.Sessions))
	for _, s := range res.Sessions {
		list = append(list, roster.Session(s, now))
	}
	p.answer(w, list, err)
}

// list runs a listing command with the limit that the request asks for, and returns its time too.
func (p *pages) list(r *http.Request, op store.Op) (store.Result, int64, error) {
	cmd := store.Command{Op: op, Limit: listed}
	if n, err := strconv.Atoi(r.FormValue("limit")); err == nil && n > 0 {
		cmd.Limit = min(n, maxListed)
	}
	res, err := p.cfg.Arbiter.Do(r.Context(), &cmd)
	return res, cmd.Now, err
}

// answer writes v as JSON.
func (p *pages) answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		p.cfg.Log.Debug("admin: an answer was cut short", "error", err)
	}
}

// Server returns an HTTP server for h whose clients cannot hold it up.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
