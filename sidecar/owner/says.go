package owner

import (
	"log/slog"
	"sync"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
)

// says logs a message at most once in a while for each subject, with how many it left out.
type says struct {
	log   *slog.Logger
	clock arbiter.Clock

	mu   sync.Mutex
	said map[string]*said // guarded by mu
}

type said struct {
	at   int64 // ms
	left int   // messages since
}

// quiet is how long a message about the same subject is held back, ms.
const quiet = 10_000

func newSays(log *slog.Logger, clock arbiter.Clock) *says {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &says{log: log, clock: clock, said: make(map[string]*said)}
}

// warn logs a warning. Subjects are few: kinds of trouble, and hosts.
func (s *says) warn(subject, message string, pairs ...any) {
	s.say(slog.LevelWarn, subject, message, pairs)
}

func (s *says) info(subject, message string, pairs ...any) {
	s.say(slog.LevelInfo, subject, message, pairs)
}

func (s *says) say(level slog.Level, subject, message string, pairs []any) {
	now := s.clock()
	s.mu.Lock()
	last := s.said[message+subject]
	if last == nil {
		last = &said{at: now - quiet}
		s.said[message+subject] = last
	}
	if now-last.at < quiet {
		last.left++
		s.mu.Unlock()
		return
	}
	if last.left > 0 {
		pairs = append(pairs, "left_out", last.left)
	}
	last.at, last.left = now, 0
	s.mu.Unlock()
	s.log.Warn(message, pairs...)
}
