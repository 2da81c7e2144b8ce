package socket

import (
	"sync"
	"time"
)

// seldomEvery is how often a line that a client can cause at will is logged.
const seldomEvery = 10 * time.Second

// Seldom lets one line pass in ten seconds and counts the others, for what a client can cause as often as it likes. Its
// zero value is ready.
type Seldom struct {
	mu     sync.Mutex
	next   time.Time // guarded by mu
	missed int64     // guarded by mu
}

// Now says whether to log at a time, and how many times it was not since.
func (s *Seldom) Now(at time.Time) (unlogged int64, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Before(s.next) {
		s.missed++
		return 0, false
	}
	unlogged, s.missed, s.next = s.missed, 0, at.Add(seldomEvery)
	return unlogged, true
}

// SeldomOf is a Seldom for each subject, of which there are few. Its zero value is ready.
type SeldomOf struct{ each sync.Map } // of *Seldom, by subject

// Now says whether to log of a subject at a time, and how many times it was not since.
func (s *SeldomOf) Now(subject string, at time.Time) (unlogged int64, now bool) {
	one, ok := s.each.Load(subject)
	if !ok {
		one, _ = s.each.LoadOrStore(subject, &Seldom{})
	}
	return one.(*Seldom).Now(at)
}
