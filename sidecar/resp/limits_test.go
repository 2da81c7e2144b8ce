package resp

import (
	"strings"
	"testing"
)

// TestShortArgumentsAreCountedAtWhatTheyTake: each of six bytes takes sixteen more, and a queued PING ten times its bytes.
func TestShortArgumentsAreCountedAtWhatTheyTake(t *testing.T) {
	for what, in := range map[string]string{
		"a command that has not arrived whole": "*65000\r\n$3\r\nDEL\r\n" + strings.Repeat("$0\r\n\r\n", 60_000),
		"a transaction":                        "MULTI\r\n" + strings.Repeat("PING\r\n", 20_000),
	} {
		c := standing(t)
		c.s.cfg.MaxArguments, c.s.cfg.MaxCommand = 1<<16, 16<<20
		c.welcome(defaultUser, "test")
		for len(in) > 0 {
			room, err := c.room()
			if err != nil {
				break
			}
			n := min(len(in), len(room))
			c.feed(in[:n])
			in = in[n:]
		}
		if len(in) == 0 {
			t.Errorf("%s of %d calls and %d arguments was taken, though there is room for %d bytes",
				what, c.multi.queued(), len(c.in.ends), c.tenant.Commands.Limit())
		}
	}
}
