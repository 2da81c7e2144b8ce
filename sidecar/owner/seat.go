package owner

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// Config is what a Seat needs to know.
type Config struct {
	Peers  Peers
	Store  *store.Store
	Keeper arbiter.Keeper // nil: memory only
	Clock  arbiter.Clock
	Disk   Disk // keeps the view and the copies' epochs; nil: memory only

	Expect        int           // hosts that are to be; a majority is counted of them even when fewer have joined
	AckOwner      bool          // sessions and locks are acknowledged without a copy
	AckTimeout    time.Duration // how long to wait for the copy; 0: 50 ms
	ServeMinority bool          // one of two hosts decides alone

	Log     *slog.Logger
	Metrics *Metrics // nil: nobody wants them
}

// Seat is this host's place among the owners: it agrees on views with the others and decides what it owns.
type Seat struct {
	cfg      Config
	accepted atomic.Pointer[view]
	changed  atomic.Pointer[chan struct{}]
	handlers [256]handler
}

// handler serves one kind of question.
type handler func(ctx context.Context, from string, body []byte) ([]byte, error)

// handle has questions of a kind served by h. It must be called before Start. Kinds below firstRouted are the Seat's.
func (s *Seat) handle(kind byte, h handler) { s.handlers[kind] = h }

// firstRouted is the first kind of the questions that routing asks.
const firstRouted byte = 32

// call asks a peer a question of a kind. It takes the peer's clock into account, as Serve does for who asks.
func (s *Seat) call(ctx context.Context, id string, ordered bool, kind byte, body []byte) ([]byte, error) {
	return s.cfg.Peers.Call(ctx, id, ordered, append([]byte{kind}, body...))
}

// view returns the accepted view, never nil.
func (s *Seat) view() *view { return s.accepted.Load() }

// viewChanged returns a channel that is closed at the next change of the view, of what is served, or of the permission. Take it before
// asking, to miss none.
func (s *Seat) viewChanged() <-chan struct{} { return *s.changed.Load() }

// decide decides a command on some shards here. id is the view by which the sender found this host. It sets the command's time. An
// error that wraps arbiter.ErrNotDecided is a *refusal: nothing was done. One that wraps arbiter.ErrUnreachable: it may have been done, and nobody knows
// whether it lasts.
func (s *Seat) decide(ctx context.Context, id ViewID, c *store.Command, shards ...int) (store.Result, error) {
	return store.Result{}, &refusal{why: notServing, view: s.view().id}
}

// now returns the time for commands: never below what a peer has shown.
func (s *Seat) now() int64 { return s.cfg.Clock() }
