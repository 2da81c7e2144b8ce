package resp

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/tenant"
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

// TestAScriptIsExemptFromTheRateWhenItEndsSomething, not when it sets.
func TestAScriptIsExemptFromTheRateWhenItEndsSomething(t *testing.T) {
	const (
		release = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`
		extend  = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end`
		add     = `return redis.call("exists",KEYS[1]) < 1 and redis.call("setex",KEYS[1],ARGV[2],ARGV[1])`
	)
	c := standing(t)
	c.s.cfg.Tenants = tenant.NewSet(map[string]tenant.Limits{"slow": {Rate: 1}}, nil)
	c.welcome(defaultUser, "slow")
	sha := func(script string) string { d := digestOf([]byte(script)); return string(d[:]) }
	for _, test := range []struct{ in, want string }{
		{encode("EVAL", add, "1", "k", "v", "100"), "+OK\r\n"}, // one a second is served
		{encode("EVAL", add, "1", "l", "v", "100"), "-THROTTLED "},
		{encode("EVALSHA", sha(add), "1", "l", "v", "100"), "-THROTTLED "},
		{encode("EVAL", "return 1", "0"), "-THROTTLED "},
		{encode("EVALSHA", sha("return 2"), "0"), "-NOSCRIPT "},
		{encode("EVAL", extend, "1", "k", "v", "9000"), ":1\r\n"},
		{encode("EVAL", release, "1", "k", "v"), ":1\r\n"},
		{encode("EVALSHA", sha(release), "1", "k", "v"), ":0\r\n"},
	} {
		if got := c.feed(test.in); !strings.HasPrefix(got, test.want) {
			t.Errorf("%.60q: %q, want %q", test.in, got, test.want)
		}
	}
}

func TestPatternsAreLimited(t *testing.T) {
	c := standing(t)
	c.feed("SET " + strings.Repeat("a", maxPattern) + " v\r\n")
	longest := "*" + strings.Repeat("a", maxPattern-1)
	for _, test := range []struct{ in, want string }{
		{encode("KEYS", longest), "*1\r\n"},
		{encode("KEYS", longest+"a"), "-ERR a pattern has 1024 bytes at most\r\n"},
		{encode("SCAN", "0", "MATCH", longest), "*2\r\n$1\r\n0\r\n*1\r\n"},
		{encode("SCAN", "0", "MATCH", longest+"a"), "-ERR a pattern has 1024 bytes at most\r\n"},
		{encode("CONFIG", "GET", "SAV[a-f]", longest, "sav*"), "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"},
		{encode("CONFIG", "GET", "save", longest+"a"), "-ERR a pattern has 1024 bytes at most\r\n"},
	} {
		if got := c.feed(test.in); !strings.HasPrefix(got, test.want) {
			t.Errorf("%.40q: %.200q, want %q", test.in, got, test.want)
		}
	}
}

// slowly has a client ask for what takes a minute: keys and a pattern that are nearly alike, many times over.
func slowly(t *testing.T, s *Server, path string) *client {
	t.Helper()
	c := dial(t, path)
	for i := range 30 {
		c.send("SET", strings.Repeat("a", 60_000)+string(rune('0'+i)), "v")
		c.expect("+OK")
	}
	if _, err := io.WriteString(c, strings.Repeat(encode("KEYS", "*"+strings.Repeat("a", maxPattern-2)+"b"), 60)); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, "the keys are not looked at", func() bool { return s.cfg.Tenants.Of("test").Requests() > 30 })
	return c
}

// TestAClientThatHasGoneIsNotSearchedFor: what takes long is given up.
func TestAClientThatHasGoneIsNotSearchedFor(t *testing.T) {
	s, path := serve(t)
	defer s.Close()
	slowly(t, s, path).Close()
	within(t, 10*time.Second, "it goes on though its client has gone", func() bool { return s.Connections() == 0 })
}

func TestCloseDoesNotWaitForASlowPattern(t *testing.T) {
	s, path := serve(t)
	c := slowly(t, s, path)
	closed := make(chan struct{})
	go func() {
		s.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on though the server closes")
	}
	if said := c.ends(); !strings.HasSuffix(said, "-ERR the daemon is stopping; the command was given up\r\n") {
		t.Errorf("the client was told %q", said)
	}
}
