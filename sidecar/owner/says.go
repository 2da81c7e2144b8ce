package owner

import (
	"log/slog"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/socket"
)

// says logs a message at most once in a while for each subject, with how many it left out.
type says struct {
	log    *slog.Logger
	clock  arbiter.Clock
	seldom socket.SeldomOf
}

func newSays(log *slog.Logger, clock arbiter.Clock) *says {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &says{log: log, clock: clock}
}

// warn logs a warning. Subjects are few: kinds of trouble, and hosts.
func (s *says) warn(subject, message string, pairs ...any) {
	left, now := s.seldom.Now(message+subject, time.UnixMilli(s.clock()))
	if !now {
		return
	}
	if left > 0 {
		pairs = append(pairs, "left_out", left)
	}
	s.log.Warn(message, pairs...)
}
