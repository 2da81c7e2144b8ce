package shell

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// The transcript that made del_if_eq: a plain del releases whoever's lock it is.
func TestOnlyTheTokenReleases(t *testing.T) {
	for _, c := range []struct {
		release          string
		said             string
		code             int
		cTries, lastHeld string
	}{
		{"del", "1\n", 0, "true\n", "c"},
		{"del-if-eq", "false\n", 3, "false\n", "B"},
	} {
		t.Run(c.release, func(t *testing.T) {
			h := open(t)
			h.expect(0, "true\n", "kv", "set", "lock", "A", "--nx", "--ttl", "1s")
			eventually(t, "the lock of A has expired", func() (bool, string) {
				r := h.run("kv", "get", "lock")
				return r.code == 3, r.String()
			})
			h.expect(0, "true\n", "kv", "set", "lock", "B", "--nx", "--ttl", "30s")
			release := []string{"kv", "del-if-eq", "lock", "A"}
			if c.release == "del" {
				release = []string{"kv", "del", "lock"}
			}
			h.expect(c.code, c.said, release...)
			code := 0
			if c.cTries == "false\n" {
				code = 3
			}
			h.expect(code, c.cTries, "kv", "set", "lock", "c", "--nx", "--ttl", "30s")
			h.expect(0, c.lastHeld, "kv", "get", "lock")
		})
	}
}

func TestValuesAreBinary(t *testing.T) {
	h := open(t)
	var all strings.Builder
	for b := range 256 {
		all.WriteByte(byte(b))
	}
	value := all.String() + "\n"
	h.check(h.runWith(value, "kv", "set", "bytes", "-"), 0, "true\n", "set")
	h.expect(0, value, "kv", "get", "bytes")
	h.check(h.runWith(value, "kv", "del-if-eq", "bytes", "-"), 0, "true\n", "del-if-eq")
	h.check(h.runWith("", "kv", "set", "empty", "-"), 0, "true\n", "set empty")
	h.expect(0, "", "kv", "get", "empty")
	h.expect(0, `{"found":true,"value":""}`+"\n", "kv", "get", "empty", "--json")
	h.check(h.runWith("\xff\x00", "kv", "set", "bytes", "-"), 0, "true\n", "set")
	h.expect(0, `{"found":true,"value_base64":"/wA="}`+"\n", "kv", "get", "bytes", "--json")
}

func TestConditionsOfSet(t *testing.T) {
	h := open(t)
	h.expect(3, "false\n", "kv", "set", "k", "v", "--xx")
	h.expect(0, "true\n", "kv", "set", "k", "1", "--nx", "--ttl", "1h")
	h.expect(3, "false\n", "kv", "set", "k", "2", "--nx")
	h.expect(3, "false\n", "kv", "set", "k", "2", "--ifeq", "")
	h.expiresIn("k", 3600)
	h.expect(0, "true\n", "kv", "set", "k", "2", "--ifeq", "1", "--keepttl")
	h.expiresIn("k", 3600)
	h.expect(0, "true\n", "kv", "set", "k", "3", "--xx")
	h.expect(0, "-1\n", "kv", "ttl", "k")
	h.expect(3, `{"set":false}`+"\n", "kv", "set", "k", "4", "--nx", "--json")
	h.expect(0, "3", "kv", "get", "k")
}

// expiresIn fails the test unless a value has so many seconds left, or a few less when this machine is slow.
func (h *house) expiresIn(key string, seconds int) {
	h.t.Helper()
	r := h.run("kv", "ttl", key)
	left, err := strconv.Atoi(strings.TrimSpace(r.out))
	if r.code != 0 || err != nil || left > seconds || left < seconds-60 {
		h.t.Fatalf("ttl of %s: %s; want %d", key, r, seconds)
	}
}

func TestMissingKeysHaveTheirOwnExitCode(t *testing.T) {
	h := open(t)
	h.expect(3, "", "kv", "get", "nothing")
	h.expect(3, "", "kv", "ttl", "nothing")
	h.expect(3, `{"found":false}`+"\n", "kv", "get", "nothing", "--json")
	h.expect(3, `{"found":false}`+"\n", "kv", "ttl", "nothing", "--json")
	h.expect(3, "false\n", "kv", "del-if-eq", "nothing", "")
	h.expect(0, "0\n", "kv", "del", "nothing")
}

func TestCounters(t *testing.T) {
	h := open(t)
	h.expect(0, "1\n", "kv", "incr", "n", "--ttl", "1h")
	h.expect(0, "-4\n", "kv", "incr", "n", "--by", "-5", "--ttl", "9h")
	h.expiresIn("n", 3600)
	h.expect(0, `{"value":-3}`+"\n", "kv", "incr", "n", "--json")
	h.expect(0, "true\n", "kv", "set", "word", "three")
	refused := h.expect(77, "", "kv", "incr", "word")
	if want := "coatcheck: refused: the value is not a 64-bit integer\n"; refused.err != want {
		t.Fatalf("the error is %q, want %q", refused.err, want)
	}
	h.expect(0, "three", "kv", "get", "word")
}

func TestScanListsEveryKey(t *testing.T) {
	h := open(t)
	h.expect(0, "", "kv", "scan")
	h.expect(0, "[]\n", "kv", "scan", "--json")
	keys := h.bash(`for i in $(seq 40); do coatcheck kv set "page:$i" x; done > /dev/null
		coatcheck kv set $'other\nline' y > /dev/null; coatcheck kv scan page: | sort -u | wc -l`)
	h.check(keys, 0, "40\n", "scan with a prefix")
	h.expect(0, "other\nline\x00", "kv", "scan", "--null", "other")
	h.expect(0, `[{"key":"other\nline"}]`+"\n", "kv", "scan", "--json", "other")
	h.check(h.bash("coatcheck kv scan --null | xargs -0 coatcheck kv del"), 0, "41\n", "del of all that scan lists")
}

func TestBucketsDoNotMeet(t *testing.T) {
	h := open(t)
	h.expect(0, "true\n", "kv", "set", "k", "default")
	h.expect(0, "true\n", "kv", "set", "k", "pages", "--bucket", "pages")
	h.expect(0, "true\n", "kv", "flush", "--bucket", "pages")
	h.expect(3, "", "kv", "get", "k", "--bucket", "pages")
	h.expect(0, "default", "kv", "get", "k")
	h.expect(0, `{"flushed":true}`+"\n", "kv", "flush", "--json")
	h.expect(3, "", "kv", "get", "k")
}

func TestFailuresAreToldApart(t *testing.T) {
	h := open(t, "COATCHECK_LIMITS_MAX_FRAME=64KiB")
	large := h.runWith(strings.Repeat("x", 65<<10), "kv", "set", "large", "-")
	h.check(large, 65, "", "a value above the frame limit")
	for _, wrong := range [][]string{
		{"kv", "get"},
		{"kv", "bogus"},
		{"kv", "set", "k", "v", "--nx", "--xx"},
		{"kv", "set", "k", "v", "--ttl", "0s"},
		{"kv", "set", "k", "v", "--ttl", "1h", "--keepttl"},
		{"kv", "scan", "--null", "--json"},
		{"lock", "bogus"},
		{"locks", "release", "nightly"},
		{"sessions", "release", "3f9ac1"},
		{"bogus"},
	} {
		r := h.expect(2, "", wrong...)
		if !strings.HasPrefix(r.err, "coatcheck: ") || strings.Count(r.err, "\n") != 1 {
			t.Errorf("%v: the error is not one sentence: %q", wrong, r.err)
		}
	}
	for _, command := range [][]string{{"ping"}, {"status"}, {"kv", "get", "k"}, {"kv", "scan"}, {"locks"}, {"sessions"}} {
		h.expect(69, "", append(command, "--socket", h.dir+"/nobody")...)
	}
}

// A daemon that stands still has been asked nothing yet.
func TestDaemonThatStandsStillIsUnreachable(t *testing.T) {
	h := open(t)
	h.pause()
	h.expect(69, "", "kv", "incr", "n", "--timeout", "100ms")
	h.resume()
	h.expect(0, "pong\n", "ping")
}

// Without an answer nobody knows whether the counter was counted up.
func TestNoAnswerIsNotANo(t *testing.T) {
	h := open(t)
	mute := filepath.Join(h.dir, "mute")
	greet(t, mute)
	r := h.expect(74, "", "kv", "incr", "n", "--socket", mute)
	if want := "it may have been done or not"; !strings.Contains(r.err, want) {
		t.Fatalf("the error is %q, want one that says: %s", r.err, want)
	}
}

// greet serves a socket that answers hello and closes the connection at the next request.
func greet(t *testing.T, socket string) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 4<<10)
			if n, err := c.Read(b); err == nil && n > 0 {
				c.Write(wire.EndResponse(wire.AppendPairs(wire.BeginResponse(nil, 1), nil), 0))
				c.Read(b)
			}
			c.Close()
		}
	}()
}
