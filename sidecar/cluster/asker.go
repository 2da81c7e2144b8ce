package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// The states of a call, which only ever goes from waiting to one of the others.
const (
	waiting   = iota // in the queue
	written          // the peer may get it
	cancelled        // it is never written
)

// call is a question and who waits for its answer.
type call struct {
	frame
	state  atomic.Int32
	answer chan reply // holds one
}

type reply struct {
	body []byte
	err  error
}

// take has the call written. It returns false when nobody waits for it any more.
func (q *call) take() (frame, bool) { return q.frame, q.state.CompareAndSwap(waiting, written) }

// lost returns the error of a call that gets no answer, and sees to it that it is not written from now on.
func (q *call) lost() error {
	if q.state.CompareAndSwap(waiting, cancelled) {
		return ErrNotSent
	}
	return ErrNoAnswer
}

// asker is this host's connection to a peer, for its questions and their answers.
type asker struct {
	*conn
	addr  string // that was dialed
	queue chan *call

	mu   sync.Mutex
	last uint64           // number of the newest question; guarded by mu
	open map[uint64]*call // nil when the connection is lost; guarded by mu
}

func newAsker(c *conn, addr string, queue int) *asker {
	return &asker{conn: c, addr: addr, queue: make(chan *call, queue), open: make(map[uint64]*call)}
}

// ask asks a question and waits for its answer.
func (a *asker) ask(ctx context.Context, k kind, body []byte) ([]byte, error) {
	if most := min(a.limit, a.peer.MaxFrame); len(body) > most {
		return nil, fmt.Errorf("%w: %w: a question of %d bytes, the limit is %d", ErrNotSent, ErrTooLarge, len(body), most)
	}
	q := &call{frame: frame{kind: k, body: body}, answer: make(chan reply, 1)}
	if err := a.enqueue(q); err != nil {
		return nil, err
	}
	select {
	case r := <-q.answer:
		return r.body, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-q.answer: // it came at the same time
		return r.body, r.err
	default:
	}
	a.take(q.number)
	return nil, fmt.Errorf("%w: %w", q.lost(), context.Cause(ctx))
}

// enqueue gives the question its number and its place among the others.
func (a *asker) enqueue(q *call) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		return fmt.Errorf("%w: the connection is lost", ErrNotSent)
	}
	q.number = a.last + 1
	select {
	case a.queue <- q:
	default:
		return fmt.Errorf("%w: %d questions wait to be written", ErrNotSent, len(a.queue))
	}
	a.last = q.number
	a.open[q.number] = q
	return nil
}

// take returns the open question with a number, which is closed thereby, or nil.
func (a *asker) take(number uint64) *call {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.open[number]
	delete(a.open, number)
	return q
}

// run carries questions and answers until the connection ends.
func (a *asker) run() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		writeQueue(a.conn, a.queue, (*call).take, true)
	}()
	a.end(a.readAnswers())
	<-done
	a.loseAll()
}

// readAnswers hands answers to those who wait, until there are no more.
func (a *asker) readAnswers() error {
	for {
		f, err := a.read()
		if err != nil {
			return err
		}
		r := reply{body: f.body}
		switch f.kind {
		case answer:
		case refusal:
			r = reply{err: fmt.Errorf("%w: node %s refused: %s", ErrNotSent, a.peer.ID, f.body)}
		case failure:
			r = reply{err: fmt.Errorf("%w: %w: node %s: %s", ErrNoAnswer, ErrFailed, a.peer.ID, f.body)}
		case pong:
			continue
		default:
			return fmt.Errorf("%w: kind %d is no answer", errFrame, f.kind)
		}
		if q := a.take(f.number); q != nil { // else its context has ended
			q.answer <- r
		}
	}
}

// loseAll answers all open questions with the loss of the connection.
func (a *asker) loseAll() {
	a.mu.Lock()
	open := a.open
	a.open = nil
	a.mu.Unlock()
	for _, q := range open {
		q.answer <- reply{err: fmt.Errorf("%w: the connection to node %s is lost: %w", q.lost(), a.peer.ID, a.err)}
	}
}
