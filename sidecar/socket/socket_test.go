package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pair returns the two ends of a connection.
func pair(t *testing.T) (server, client net.Conn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("unix", path); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); client.Close() })
	return server, client
}

// until waits for a condition and fails the test when it does not come.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// purse is a budget.
type purse struct{ left atomic.Int64 }

func (p *purse) Take(n int64) bool {
	if p.left.Add(-n) >= 0 {
		return true
	}
	p.left.Add(n)
	return false
}
func (p *purse) Give(n int64) { p.left.Add(n) }

const large = 4 << 20 // more than the kernel takes at once

func TestWhatThePeerDoesNotTakeIsCharged(t *testing.T) {
	server, client := pair(t)
	s, err := New(server, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	budget := &purse{}
	budget.left.Store(large)
	s.Charge(budget)
	if err := s.Write(make([]byte, 100)); err != nil || budget.left.Load() != large {
		t.Fatalf("what is taken at once: %v, %d left", err, budget.left.Load())
	}
	written := make(chan error, 1)
	go func() { written <- s.Write(make([]byte, large)) }()
	until(t, "it waits", func() bool { return budget.left.Load() == 0 })
	if _, err := io.CopyN(io.Discard, client, large+100); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil || budget.left.Load() != large {
		t.Errorf("after it was read: %v, %d left", err, budget.left.Load())
	}
}

// TestWhatIsPaidIsNotChargedAgain, and what follows it is.
func TestWhatIsPaidIsNotChargedAgain(t *testing.T) {
	server, client := pair(t)
	s, err := New(server, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	budget := &purse{} // empty: the caller took it all
	s.Charge(budget)
	written := make(chan error, 1)
	go func() { written <- s.WritePaid(make([]byte, large)) }()
	if _, err := io.CopyN(io.Discard, client, large); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil || budget.left.Load() != 0 {
		t.Errorf("%v, %d left", err, budget.left.Load())
	}
	if err := s.Write(make([]byte, large)); !errors.Is(err, ErrUnread) {
		t.Errorf("the next one, which is not paid: %v", err)
	}
}

func TestWhatDoesNotFitTheBudgetIsNotWaitedFor(t *testing.T) {
	server, _ := pair(t)
	s, err := New(server, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	budget := &purse{}
	budget.left.Store(large - 1)
	s.Charge(budget)
	if err := s.Write(make([]byte, large)); !errors.Is(err, ErrUnread) || budget.left.Load() != large-1 {
		t.Errorf("got %v, %d left", err, budget.left.Load())
	}
}

func TestWhoDoesNotReadIsGivenUpAndChargedNoMore(t *testing.T) {
	server, _ := pair(t)
	s, err := New(server, 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	budget := &purse{}
	budget.left.Store(large)
	s.Charge(budget)
	if err := s.Write(make([]byte, large)); !errors.Is(err, os.ErrDeadlineExceeded) || budget.left.Load() != large {
		t.Errorf("got %v, %d left", err, budget.left.Load())
	}
}

// TestWhoIsTurnedAwayReadsWhy though it was still speaking.
func TestWhoIsTurnedAwayReadsWhy(t *testing.T) {
	server, client := pair(t)
	g := NewCrowd[net.Conn]()
	io.WriteString(server, "no room")
	g.TurnAway(server)
	if _, err := io.WriteString(client, "hello"); err != nil {
		t.Errorf("while it says hello: %v", err)
	}
	if words, err := io.ReadAll(client); err != nil || string(words) != "no room" {
		t.Errorf("it reads %q, %v", words, err)
	}
	client.Close()
	until(t, "nobody leaves any more", func() bool { return g.leaving.Load() == 0 })
}

func TestAClosedCrowdAdmitsNobody(t *testing.T) {
	g := NewCrowd[int]()
	stop := make(chan struct{})
	if !g.Admit(1, func() { <-stop }) || g.Len() != 1 {
		t.Errorf("%d are there, want 1", g.Len())
	}
	g.Close(func(int) { close(stop) })
	if g.Admit(2, func() {}) || g.Len() != 0 {
		t.Errorf("%d are there when it is closed", g.Len())
	}
}

// TestSeldomOfEachSubject: one does not silence another.
func TestSeldomOfEachSubject(t *testing.T) {
	var s SeldomOf
	at := time.Now()
	for _, subject := range []string{"a", "b"} {
		if unlogged, now := s.Now(subject, at); !now || unlogged != 0 {
			t.Errorf("the first of %s: %v, %d", subject, now, unlogged)
		}
	}
	if _, now := s.Now("a", at); now {
		t.Error("it is logged again at once")
	}
	if unlogged, now := s.Now("a", at.Add(seldomEvery)); !now || unlogged != 1 {
		t.Errorf("later: %v, %d; want true, 1", now, unlogged)
	}
	if unlogged, now := s.Now("b", at.Add(seldomEvery)); !now || unlogged != 0 {
		t.Errorf("of the other: %v, %d; want true, 0", now, unlogged)
	}
}

func TestSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Seldom
		for _, want := range []int64{0, 99} {
			if unlogged, now := s.Now(time.Now()); !now || unlogged != want {
				t.Errorf("%v, %d; want true, %d", now, unlogged, want)
			}
			for range 99 {
				if _, now := s.Now(time.Now()); now {
					t.Error("it is logged again at once")
				}
			}
			time.Sleep(seldomEvery)
		}
	})
}
