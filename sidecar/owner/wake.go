package owner

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// name is a lock or key for which somebody waits.
type name struct {
	space   store.Space
	session bool
	key     string
}

func nameOf(c *store.Command) name {
	return name{space: c.Space, session: c.Op.OfSession(), key: string(c.Key)}
}

// waking is who waits where for what this host owns. Those who wait look for themselves now and then, so it may forget: a wake-up that
// is lost costs them one back-off.
type waking struct {
	call   atomic.Pointer[func(store.Space, bool, string)] // wakes those who wait here
	under  atomic.Int32                                    // notices on their way
	anyone atomic.Int32                                    // names in waits

	mu    sync.Mutex
	waits map[name]map[string]int64 // until when each host is to be told, ms; guarded by mu
	swept int64                     // when what is over was last dropped, ms; guarded by mu
}

const (
	// interest is how long a host is told after it asked: who still waits asks again long before.
	interest = 3 * time.Second
	// mostNames bounds the names for which hosts are remembered.
	mostNames = 16 << 10
	// mostNotices bounds the notices that are on their way.
	mostNotices = 256
	// noticeLimit is how long a notice may take.
	noticeLimit = time.Second
)

func (w *waking) init() { w.waits = make(map[name]map[string]int64) }

// OnWake has f called when a lock or key for which somebody may wait here was released or changed by a command that did not come from
// here; an empty key stands for all keys of the space. f must not wait. It must be called before the Seat is started.
func (a *Arbiter) OnWake(f func(space store.Space, session bool, key string)) {
	a.waking.call.Store(&f)
}

// noteDecided takes notice of what was decided here for a host: it may wait for it from now on, or others may go on.
func (a *Arbiter) noteDecided(asker string, c *store.Command, r *store.Result) {
	w, remote := &a.waking, asker != a.host.id()
	switch {
	case remote && (r.Status == store.Busy || c.Op == store.OpVersion):
		w.remember(nameOf(c), asker, a.host.now())
		return
	case !remote && w.anyone.Load() == 0:
		return
	}
	names := changed(nil, c, r)
	if remote {
		a.wakeHere(names)
	}
	if len(names) > 0 && w.anyone.Load() > 0 {
		a.notify(w.take(names), asker)
	}
}

// changed adds the names of what a command released or changed to names.
func changed(names []name, c *store.Command, r *store.Result) []name {
	switch {
	case c.Frees(r), c.Op.ChangesString():
		names = append(names, nameOf(c))
	case c.Op == store.OpFlush:
		names = append(names, name{space: c.Space})
	case c.Op == store.OpBatch:
		for i := range r.Batch {
			names = changed(names, &c.Batch[i], &r.Batch[i])
		}
	}
	if c.Op == store.OpRename {
		names = append(names, name{space: c.Space, key: string(c.NewKey)})
	}
	return names
}

// wakeHere wakes those who wait on this host.
func (a *Arbiter) wakeHere(names []name) {
	if wake := a.waking.call.Load(); wake != nil {
		for _, n := range names {
			(*wake)(n.space, n.session, n.key)
		}
	}
}

// remember notes that a host waits for a name.
func (w *waking) remember(n name, who string, now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now-w.swept > interest.Milliseconds() {
		w.sweep(now)
	}
	hosts := w.waits[n]
	if hosts == nil {
		if len(w.waits) >= mostNames {
			return
		}
		hosts = make(map[string]int64, 1)
		w.waits[n] = hosts
		w.anyone.Store(int32(len(w.waits)))
	}
	hosts[who] = now + interest.Milliseconds()
}

// sweep drops what is over. mu is held.
func (w *waking) sweep(now int64) {
	w.swept = now
	for n, hosts := range w.waits {
		for who, until := range hosts {
			if until <= now {
				delete(hosts, who)
			}
		}
		if len(hosts) == 0 {
			delete(w.waits, n)
		}
	}
	w.anyone.Store(int32(len(w.waits)))
}

// notices are the names of which hosts are to be told.
type notices map[string][]name

// take returns the hosts that wait for names, and forgets them.
func (w *waking) take(names []name) notices {
	told := make(notices)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range names {
		if n.key != "" {
			w.tell(told, n)
			continue
		}
		for waited := range w.waits {
			if waited.space == n.space && !waited.session {
				w.tell(told, waited)
			}
		}
	}
	w.anyone.Store(int32(len(w.waits)))
	return told
}

// tell has the hosts that wait for a name told. mu is held.
func (w *waking) tell(told notices, n name) {
	for who := range w.waits[n] {
		told[who] = append(told[who], n)
	}
	delete(w.waits, n)
}

// notify tells the hosts, but the one that asked for the change and knows. Nobody waits for it, and an answer is not looked at.
func (a *Arbiter) notify(told notices, asker string) {
	for who, names := range told {
		if who == asker {
			continue
		}
		if a.waking.under.Add(1) > mostNotices {
			a.waking.under.Add(-1)
			a.m.wakes.WithLabelValues("dropped").Inc()
			continue
		}
		a.m.wakes.WithLabelValues("sent").Inc()
		go func() {
			defer a.waking.under.Add(-1)
			ctx, cancel := context.WithTimeout(context.Background(), noticeLimit)
			defer cancel()
			a.host.call(ctx, who, false, kindWake, appendNames(nil, names))
		}()
	}
}

func appendNames(b []byte, names []name) []byte {
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, n := range names {
		b = appendString(appendString(b, n.space.Tenant), n.space.Bucket)
		b = appendString(appendBool(b, n.session), n.key)
	}
	return b
}

// serveWake wakes those who wait here for what its owner says was released or changed.
func (a *Arbiter) serveWake(_ context.Context, _ string, body []byte) ([]byte, error) {
	r := &reader{b: body}
	names := make([]name, r.count(4))
	for i := range names {
		names[i] = name{space: store.Space{Tenant: r.string(), Bucket: r.string()}, session: r.bool(), key: r.string()}
	}
	if r.err != nil {
		return nil, r.err
	}
	a.wakeHere(names)
	return nil, nil
}
