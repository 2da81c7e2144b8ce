package fpm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/yookoala/gofast"
)

const (
	// maxStatus bounds what is read of a pool's status: some 10,000 workers.
	maxStatus = 8 << 20

	// The states of a worker, in php-fpm's words. One that has just been started has none of them.
	stateIdle           = "Idle"
	stateReadingHeaders = "Reading headers"
	stateGettingRequest = "Getting request informations"
	stateRunning        = "Running"
	stateEnding         = "Ending"
	stateFinishing      = "Finishing"
)

// PoolConfig says how to ask a php-fpm pool about itself.
type PoolConfig struct {
	// Address is where the pool listens: "unix:/path/to.sock" or "host:port".
	Address string

	// StatusAddress is the pool's pm.status_listen, which answers even while all workers are busy. Default
	// Address: then ping and status wait for a worker like any page, and the worker that answers is counted as idle.
	StatusAddress string

	// PingPath and StatusPath are the pool's ping.path and pm.status_path. Defaults "/ping" and "/status".
	PingPath, StatusPath string

	// Timeout is the longest a ping or a status may take. Default 2 s.
	Timeout time.Duration
}

// Pool asks a php-fpm pool for its ping and its status, each time over a connection of its own.
type Pool struct {
	cfg             PoolConfig
	network, addr   string // of the pool
	statusNetwork   string
	statusAddr      string
	sharesAddresses bool // status goes through a worker of the pool itself
}

// Status is what a pool says about its workers. A worker that is just starting is among Workers and in none of the
// three counts.
type Status struct {
	Pool         string   // the pool's name
	Manager      string   // "static", "dynamic" or "ondemand"
	Busy         int      // workers that run a script
	Idle         int      // workers that wait for a connection
	Kept         int      // workers that wait for the next request on a connection which its client keeps
	ListenQueue  int      // connections that wait for a worker now; always 0 where the system cannot say
	Accepted     int64    // requests taken since the pool's start; php-fpm calls them "accepted conn"
	SlowRequests int64    // requests that took longer than request_slowlog_timeout
	MaxReached   int      // how often pm.max_children was too few
	Workers      []Worker // in php-fpm's order
}

// Worker is one process of a pool. URIs and users are left out on purpose: they may carry credentials.
type Worker struct {
	PID      int
	State    string        // in php-fpm's words: "Idle", "Running", "Reading headers", ...
	Requests int64         // served since its start
	Duration time.Duration // of the current request, or of the last one
	Script   string        // of the current request, or of the last one
}

// NewPool returns a Pool for cfg. It does not connect yet.
func NewPool(cfg PoolConfig) (*Pool, error) {
	setDefault(&cfg.StatusAddress, cfg.Address)
	setDefault(&cfg.PingPath, "/ping")
	setDefault(&cfg.StatusPath, "/status")
	setDefault(&cfg.Timeout, 2*time.Second)
	p := &Pool{cfg: cfg, sharesAddresses: cfg.Address == cfg.StatusAddress}
	var err error
	if p.network, p.addr, err = parseAddress(cfg.Address); err != nil {
		return nil, err
	}
	if p.statusNetwork, p.statusAddr, err = parseAddress(cfg.StatusAddress); err != nil {
		return nil, err
	}
	return p, nil
}

// Ping asks a worker of the pool for a sign of life. It returns ErrUnavailable if nobody listens, ErrTimeout if no
// worker came free in time, and an error that names ping.path if the pool has none.
func (p *Pool) Ping(ctx context.Context) error {
	_, err := p.ask(ctx, p.network, p.addr, p.cfg.PingPath, "")
	if err != nil {
		return fmt.Errorf("fpm: ping of %s (ping.path %s): %w", p.cfg.Address, p.cfg.PingPath, err)
	}
	return nil
}

// Status asks the pool about its workers. It returns the errors of Ping.
//
// Workers are counted by their own states, because php-fpm's "active processes" counts a worker as active when
// it merely holds a kept connection.
func (p *Pool) Status(ctx context.Context) (Status, error) {
	body, err := p.ask(ctx, p.statusNetwork, p.statusAddr, p.cfg.StatusPath, "json&full")
	var s Status
	if err == nil {
		s, err = p.decode(body)
	}
	if err != nil {
		return Status{}, fmt.Errorf("fpm: status of %s (pm.status_path %s): %w", p.cfg.StatusAddress, p.cfg.StatusPath, err)
	}
	return s, nil
}

// decode reads php-fpm's JSON.
func (p *Pool) decode(body []byte) (Status, error) {
	var page struct {
		Pool         string `json:"pool"`
		Manager      string `json:"process manager"`
		Accepted     int64  `json:"accepted conn"`
		ListenQueue  int    `json:"listen queue"`
		MaxReached   int    `json:"max children reached"`
		SlowRequests int64  `json:"slow requests"`
		Processes    []struct {
			PID      int    `json:"pid"`
			State    string `json:"state"`
			Requests int64  `json:"requests"`
			Duration int64  `json:"request duration"` // microseconds
			URI      string `json:"request uri"`
			Script   string `json:"script"`
		} `json:"processes"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return Status{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	s := Status{
		Pool: page.Pool, Manager: page.Manager, Accepted: page.Accepted, ListenQueue: page.ListenQueue,
		MaxReached: page.MaxReached, SlowRequests: page.SlowRequests,
	}
	for _, w := range page.Processes {
		path, _, _ := strings.Cut(w.URI, "?")
		s.count(w.State, p.sharesAddresses && path == p.cfg.StatusPath)
		s.Workers = append(s.Workers, Worker{
			PID: w.PID, State: w.State, Requests: w.Requests,
			Duration: time.Duration(w.Duration) * time.Microsecond, Script: w.Script,
		})
	}
	return s, nil
}

// count counts one worker; answering says that it is the one that answers this very status.
func (s *Status) count(state string, answering bool) {
	switch state {
	case stateIdle:
		s.Idle++
	case stateReadingHeaders:
		s.Kept++
	case stateGettingRequest, stateRunning, stateEnding, stateFinishing:
		if answering {
			s.Idle++
		} else {
			s.Busy++
		}
	}
}

// ask fetches one of php-fpm's own pages.
func (p *Pool) ask(ctx context.Context, network, addr, path, query string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	// gofast waits for a read or a write without a limit; closing the connection is what ends it.
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()

	answer := &capture{header: make(http.Header)}
	err = fetch(ctx, nc, path, query, answer)
	switch {
	case ctx.Err() != nil:
		return nil, unavailable(ctx, ctx.Err())
	case answer.tooLong:
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrMalformed, maxStatus)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBrokenOff, err)
	case answer.status != http.StatusOK:
		return nil, fmt.Errorf("php-fpm answered %d; set the path in the pool's configuration", answer.status)
	}
	return answer.body.Bytes(), nil
}

// unavailable tells a wait that was too long from an address where nobody listens.
func unavailable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: no worker came free", ErrTimeout)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// fetch runs one request over nc.
func fetch(ctx context.Context, nc net.Conn, path, query string, answer *capture) error {
	client, err := gofast.SimpleClientFactory(func() (net.Conn, error) { return nc, nil })()
	if err != nil {
		return err
	}
	// The request is there for its context: without one, gofast hangs on a header line that it finds too long.
	raw, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return err
	}
	request := gofast.NewRequest(raw)
	for name, value := range map[string]string{
		"SCRIPT_FILENAME": path, "SCRIPT_NAME": path, "REQUEST_URI": path,
		"QUERY_STRING": query, "REQUEST_METHOD": http.MethodGet,
		"SERVER_PROTOCOL": "HTTP/1.1", "GATEWAY_INTERFACE": "CGI/1.1",
	} {
		request.Params[name] = value
	}
	pipe, err := client.Do(request)
	if err != nil {
		return err
	}
	return pipe.WriteTo(answer, io.Discard)
}

// capture is the http.ResponseWriter that gofast writes to.
type capture struct {
	header  http.Header
	status  int
	body    bytes.Buffer
	tooLong bool
}

func (c *capture) Header() http.Header    { return c.header }
func (c *capture) WriteHeader(status int) { c.status = status }

// Write keeps the body up to its bound. Beyond, it goes on reading, because gofast's goroutines end only when
// the whole answer is read.
func (c *capture) Write(p []byte) (int, error) {
	if c.tooLong = c.tooLong || c.body.Len()+len(p) > maxStatus; !c.tooLong {
		c.body.Write(p)
	}
	return len(p), nil
}
