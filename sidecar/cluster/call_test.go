package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// pair returns two hosts, and the connection of the first to the second.
func pair(t *testing.T, change ...func(*Config)) (from, to *Cluster, a *asker) {
	t.Helper()
	all := gather(t, 2, change...)
	return all[0], all[1], all[0].askerTo(all[1])
}

// askerTo returns a host's connection to another, or nil.
func (c *Cluster) askerTo(to *Cluster) *asker {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.links[to.Self().ID]; l != nil {
		return l.current.Load()
	}
	return nil
}

// put has a question written without waiting for its answer.
func put(t testing.TB, a *asker, k kind, number uint64) *call {
	t.Helper()
	q := &call{frame: frame{kind: k, body: binary.BigEndian.AppendUint64(nil, number)}, answer: make(chan reply, 1)}
	if err := a.enqueue(q); err != nil {
		t.Fatal(err)
	}
	return q
}

func TestOrderedQuestionsAreServedOneAfterAnother(t *testing.T) {
	_, to, a := pair(t)
	var mu sync.Mutex
	var served []uint64
	var inside atomic.Int32
	to.Handle(serving(func(_ context.Context, _ string, body []byte) ([]byte, error) {
		if number := binary.BigEndian.Uint64(body); number > 0 { // an ordered one
			if inside.Add(1) > 1 {
				t.Error("two ordered questions are being served")
			}
			defer inside.Add(-1)
			mu.Lock()
			defer mu.Unlock()
			served = append(served, number)
		}
		return body, nil
	}))
	var all []*call
	for i := range uint64(500) {
		all = append(all, put(t, a, ordered, i+1), put(t, a, question, 0))
	}
	for _, q := range all {
		if r := <-q.answer; r.err != nil || !bytes.Equal(r.body, q.body) {
			t.Fatalf("question %d: %x, %v", q.number, r.body, r.err)
		}
	}
	for i, number := range served {
		if number != uint64(i+1) {
			t.Fatalf("question %d was served in place %d", number, i+1)
		}
	}
}

func TestOtherQuestionsAreServedBesideEachOther(t *testing.T) {
	const n = 10
	from, to, _ := pair(t)
	var inside sync.WaitGroup
	inside.Add(n)
	to.Handle(serving(func(context.Context, string, []byte) ([]byte, error) {
		inside.Done()
		inside.Wait() // for all
		return nil, nil
	}))
	var asking sync.WaitGroup
	for i := range n {
		asking.Go(func() {
			if _, err := from.Call(t.Context(), to.Self().ID, i == 0, nil); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
}

func TestOrderHoldsAcrossALostConnection(t *testing.T) {
	from, to, a := pair(t)
	entered, leave := make(chan uint64, 10), make(chan struct{})
	to.Handle(serving(func(_ context.Context, _ string, body []byte) ([]byte, error) {
		entered <- binary.BigEndian.Uint64(body)
		<-leave // whatever becomes of the connection
		return body, nil
	}))
	first := put(t, a, ordered, 1)
	if n := <-entered; n != 1 {
		t.Fatalf("question %d is served first", n)
	}
	second := put(t, a, ordered, 2) // waits behind it
	until(t, "both are written", func() bool { return second.state.Load() == written }, func() string { return "" })
	a.end(errors.New("cut by the test"))
	for _, q := range []*call{first, second} {
		if r := <-q.answer; !errors.Is(r.err, ErrNoAnswer) {
			t.Errorf("question %d: %v", q.number, r.err)
		}
	}
	var again *asker
	until(t, "there is a new connection", func() bool {
		again = from.askerTo(to)
		return again != nil && again != a
	}, func() string { return "" })
	third := put(t, again, ordered, 3)
	// An answer to what was sent after the third shows that the third has arrived.
	if _, err := from.ask(t.Context(), to.Self().ID, notice, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	select {
	case n := <-entered:
		t.Fatalf("question %d is served while the first one still is", n)
	default:
	}
	close(leave)
	if r := <-third.answer; r.err != nil {
		t.Fatal(r.err)
	}
	if n := <-entered; n != 3 {
		t.Errorf("question %d of the lost connection is served after it", n)
	}
}

func TestALostConnectionAnswersAllCalls(t *testing.T) {
	from, to, a := pair(t)
	entered := make(chan struct{})
	served := make(chan error, 1)
	to.Handle(serving(func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
		close(entered)
		<-ctx.Done()
		served <- ctx.Err()
		return nil, nil
	}))
	failed := make(chan error)
	go func() {
		_, err := from.Call(t.Context(), to.Self().ID, false, nil)
		failed <- err
	}()
	<-entered
	a.end(errors.New("cut by the test"))
	if err := <-failed; !errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "cut by the test") {
		t.Errorf("got %v", err)
	}
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Errorf("the Handler's context: %v", err)
	}
	meshed(t, from, to) // again
}

func TestWhatWasNotWrittenIsNotSent(t *testing.T) {
	c := &conn{limit: minFrame, peer: greeting{MaxFrame: minFrame}, ended: make(chan struct{})}
	a := newAsker(c, "", 1) // nobody writes
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.ask(ended, question, nil); !errors.Is(err, ErrNotSent) || !errors.Is(err, context.Canceled) {
		t.Errorf("the context ended while it waited: %v", err)
	}
	if _, err := a.ask(t.Context(), question, nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("the queue is full: %v", err)
	}
	q := <-a.queue
	if _, ok := q.take(); ok {
		t.Error("a question that nobody waits for is written")
	}
	waits, wasWritten := put(t, a, question, 1), &call{answer: make(chan reply, 1)}
	<-a.queue
	if err := a.enqueue(wasWritten); err != nil {
		t.Fatal(err)
	}
	if _, ok := wasWritten.take(); !ok {
		t.Error("a question that waits is not written")
	}
	if _, err := a.ask(ended, question, nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("the queue is full: %v", err)
	}
	c.err = errors.New("cut by the test")
	a.loseAll()
	if r := <-waits.answer; !errors.Is(r.err, ErrNotSent) {
		t.Errorf("lost while it waited: %v", r.err)
	}
	if r := <-wasWritten.answer; !errors.Is(r.err, ErrNoAnswer) || errors.Is(r.err, ErrNotSent) {
		t.Errorf("lost when it was written: %v", r.err)
	}
	if _, err := a.ask(t.Context(), question, nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("after the loss: %v", err)
	}
}

func TestACallerWhoGoesAwayGetsNoAnswer(t *testing.T) {
	from, to, a := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	to.Handle(serving(func(context.Context, string, []byte) ([]byte, error) {
		cancel()
		return []byte("late"), nil
	}))
	// The answer and the end race, and either may win.
	if b, err := from.Call(ctx, to.Self().ID, false, nil); err != nil && (!errors.Is(err, ErrNoAnswer) || !errors.Is(err, context.Canceled)) {
		t.Errorf("got %q, %v", b, err)
	}
	until(t, "nothing stays open", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.open) == 0
	}, func() string { return "an open question" })
}

func TestOnlySoManyQuestionsAreServed(t *testing.T) {
	const n = 3
	from, to, a := pair(t, func(c *Config) { c.MaxServing = n })
	entered, leave := make(chan struct{}, n), make(chan struct{})
	to.Handle(serving(func(context.Context, string, []byte) ([]byte, error) {
		entered <- struct{}{}
		<-leave
		return nil, nil
	}))
	open := []*call{put(t, a, question, 0), put(t, a, ordered, 0), put(t, a, ordered, 0)} // the last one waits for its turn
	<-entered
	<-entered
	for _, inOrder := range []bool{false, true} {
		if _, err := from.Call(t.Context(), to.Self().ID, inOrder, nil); !errors.Is(err, ErrNotSent) || !strings.Contains(err.Error(), "3 questions") {
			t.Errorf("got %v", err)
		}
	}
	close(leave)
	for _, q := range open {
		if r := <-q.answer; r.err != nil {
			t.Error(r.err)
		}
	}
	if _, err := from.Call(t.Context(), to.Self().ID, true, nil); err != nil {
		t.Errorf("when there is room again: %v", err)
	}
}

func TestTooLargeAndFailedAreToldApart(t *testing.T) {
	from, to, _ := pair(t, func(c *Config) {
		if c.Name == "web2" {
			c.MaxFrame = minFrame // the smaller one counts
		}
	})
	id := to.Self().ID
	to.Handle(serving(func(_ context.Context, _ string, body []byte) ([]byte, error) {
		switch string(body) {
		case "fail":
			return nil, fmt.Errorf("no luck: %s", strings.Repeat("x", 2*maxReason))
		case "large":
			return make([]byte, minFrame+1), nil
		}
		return body, nil
	}))
	whole := bytes.Repeat([]byte("x"), minFrame)
	if b, err := from.Call(t.Context(), id, false, whole); err != nil || !bytes.Equal(b, whole) {
		t.Errorf("as large as may be: %d bytes, %v", len(b), err)
	}
	if _, err := from.Call(t.Context(), id, false, append(whole, 'x')); !errors.Is(err, ErrNotSent) || !errors.Is(err, ErrTooLarge) {
		t.Errorf("a byte more: %v", err)
	}
	for _, body := range []string{"fail", "large"} {
		if _, err := from.Call(t.Context(), id, false, []byte(body)); !errors.Is(err, ErrNoAnswer) || !errors.Is(err, ErrFailed) || len(err.Error()) > 2*maxReason {
			t.Errorf("%s: %v", body, err)
		}
	}
	if b, err := from.Call(t.Context(), id, true, []byte("fine")); err != nil || string(b) != "fine" {
		t.Errorf("the connection goes on: %q, %v", b, err)
	}
}
