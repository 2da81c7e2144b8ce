package resp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/config"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// expect sends commands, one a line, with the reply that each must have behind "→".
func (c *raw) expect(script string) {
	c.t.Helper()
	for line := range strings.Lines(script) {
		command, want, found := strings.Cut(strings.TrimSpace(line), " → ")
		if !found {
			continue
		}
		if got := strings.TrimSpace(c.do(words(command)...).String()); got != want {
			c.t.Errorf("%.80s: %.200s, want %.200s", command, got, want)
		}
	}
}

const wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value"

// TestDelIfEq: as Valkey 9 documents it.
func TestDelIfEq(t *testing.T) {
	c := dial(t, startEndpoint(t).resp)
	c.expect(`
		delifeq k token → :0
		set k token → +OK
		delifeq k other → :0
		delifeq k Token → :0
		delifeq k "" → :0
		exists k → :1
		delifeq k token → :1
		exists k → :0
		set k "" → +OK
		delifeq k "" → :1
		hset h f v → :1
		delifeq h v → ` + wrongType + `
		delifeq k → -ERR wrong number of arguments for 'delifeq' command
		delifeq k a b → -ERR wrong number of arguments for 'delifeq' command
		set k token px 100000 → +OK
		delifeq k token → :1`)
	long := strings.Repeat("token ", 1_000) // compressed in the store
	c.do("SET", "k", long)
	if got := c.do("DELIFEQ", "k", long[1:]).String() + c.do("DELIFEQ", "k", long).String(); got != ":0:1" {
		t.Errorf("of a long value: %s", got)
	}
}

// TestDelEx: as Redis 8.4 documents it, without the digests.
func TestDelEx(t *testing.T) {
	c := dial(t, startEndpoint(t).resp)
	c.expect(`
		delex k → :0
		set k v → +OK
		delex k → :1
		hset h f v → :1
		delex h ifeq v → ` + wrongType + `
		delex h ifne v → ` + wrongType + `
		delex h → :1
		delex k ifeq v → :0
		delex k ifne v → :0
		set k v → +OK
		delex k ifeq w → :0
		delex k ifne v → :0
		delex k IFEQ v → :1
		set k v → +OK
		delex k IFNE w → :1
		delex k ifeq → -ERR wrong number of arguments for 'delex' command
		delex k foo v → -ERR syntax error
		delex k ifdeq 0123456789abcdef → -ERR IFDEQ and IFDNE are not served: use IFEQ or IFNE`)
}

// TestSetIfEq: as Valkey 8.1 and Redis 8.4 document it.
func TestSetIfEq(t *testing.T) {
	c := dial(t, startEndpoint(t).resp)
	c.expect(`
		set k v ifeq v → $null
		exists k → :0
		set k v ex 100 → +OK
		set k w ifeq x → $null
		get k → "v"
		ttl k → :100
		set k w ifeq v → +OK
		get k → "w"
		ttl k → :-1
		set k x ifeq w get → "w"
		set k y ifeq w get → "x"
		get k → "x"
		set k y ifeq x ex 100 → +OK
		ttl k → :100
		set k z keepttl ifeq y → +OK
		ttl k → :100
		set k v ifeq → -ERR syntax error
		set k v nx ifeq z → -ERR syntax error
		set k v ifeq z xx → -ERR syntax error
		hset h f v → :1
		set h w ifeq v → ` + wrongType)
}

func TestKeysThatAreNone(t *testing.T) {
	c := dial(t, startEndpoint(t).resp)
	none := "-ERR a key must have 1 to 65535 bytes"
	c.expect(`
		set "" v → ` + none + `
		get "" → ` + none + `
		mget a "" → ` + none + `
		rename a "" → ` + none + `
		multi → +OK
		set "" v → +QUEUED
		set k v → +QUEUED
		exec → *[` + none + ` +OK]`)
	if got := c.do("SET", strings.Repeat("k", 65_536), "v").String(); got != none {
		t.Errorf("a long key: %s", got)
	}
	if got := c.do("SET", strings.Repeat("k", 65_535), "v").String(); got != "+OK" {
		t.Errorf("the longest key: %s", got)
	}
}

// TestOtherScriptsAreRefusedWithAdvice: nothing is changed, and the error says what to use.
func TestOtherScriptsAreRefusedWithAdvice(t *testing.T) {
	c := dial(t, startEndpoint(t).resp)
	for _, command := range [][]string{
		{"EVAL", `redis.call("set",KEYS[1],ARGV[1])`, "1", "k", "v"},
		{"EVAL", `redis.call("zremrangebyscore",KEYS[1],"-inf",ARGV[1])`, "1", "k", "v"},
		{"SCRIPT", "LOAD", "return 1"},
	} {
		got := c.do(command...).String()
		for _, word := range []string{"-ERR this script is not served", "DELIFEQ", "coatcheck/symfony"} {
			if !strings.Contains(got, word) {
				t.Errorf("%v: %s lacks %q", command, got, word)
			}
		}
	}
	c.expect(`
		exists k → :0
		watch k → -ERR WATCH is not served: use SET with IFEQ, or DELIFEQ, which compare and act in one step
		rename a b → -ERR no such key
		multi → +OK
		keys * → -ERR Command not allowed inside a transaction
		exec → -EXECABORT Transaction discarded because of previous errors.`)
}

// call sends one request over the daemon's own socket.
func (e *endpoint) call(t *testing.T, method string, params wire.Pairs) any {
	t.Helper()
	c, err := client.Dial(t.Context(), filepath.Join(e.dir, "coatcheck.sock"), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	result, err := c.Call(t.Context(), method, params)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return result
}

func TestTheSocketsBucketsAreDatabases(t *testing.T) {
	e := startEndpoint(t)
	c := dial(t, e.resp)
	e.call(t, "kv.set", wire.Pairs{{Key: "key", Value: "k"}, {Key: "value", Value: "of none"}})
	e.call(t, "kv.set", wire.Pairs{{Key: "key", Value: "k"}, {Key: "value", Value: "of 3"}, {Key: "bucket", Value: "3"}})
	c.expect(`
		get k → "of none"
		select 3 → +OK
		get k → "of 3"
		set k "from redis" → +OK`)
	got := e.call(t, "kv.get", wire.Pairs{{Key: "key", Value: "k"}, {Key: "bucket", Value: "3"}})
	if b, _ := got.([]byte); string(b) != "from redis" {
		t.Errorf("the socket sees %q", got)
	}
}

// TestSessionsAndLocksAreNotReachable by their names, nor by any flush.
func TestSessionsAndLocksAreNotReachable(t *testing.T) {
	e := startEndpoint(t)
	c := dial(t, e.resp)
	e.call(t, "session.commit", wire.Pairs{{Key: "id", Value: "abc"}, {Key: "data", Value: "secret"}, {Key: "ttl_ms", Value: 100_000}})
	e.call(t, "lock.acquire", wire.Pairs{{Key: "name", Value: "job"}, {Key: "token", Value: "token"}})
	c.expect(`
		get abc → $null
		get job → $null
		type abc → +none
		keys * → *[]
		dbsize → :0
		randomkey → $null
		del abc job → :0
		flushdb → +OK
		flushall → +OK`)
	if exists := e.call(t, "session.exists", wire.Pairs{{Key: "id", Value: "abc"}}); exists != true {
		t.Error("the session is gone")
	}
	if free := e.call(t, "lock.release", wire.Pairs{{Key: "name", Value: "job"}, {Key: "token", Value: "token"}}); free != true {
		t.Error("the lock is gone")
	}
}

// withUsers gives a daemon users with the password "secret", each of a tenant of its own name.
func withUsers(t *testing.T, names ...string) func(*config.Config) {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, name := range names {
		lines.WriteString(name + ":tenant-" + name + ":" + string(hash) + "\n")
	}
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *config.Config) { c.Redis.Users = path }
}

func TestUsersSeeTheirTenantOnly(t *testing.T) {
	e := startEndpoint(t, withUsers(t, "shop", "blog", "default"))
	shop, blog, other := dial(t, e.resp), dial(t, e.resp), dial(t, e.resp)
	shop.expect(`
		get k → -NOAUTH Authentication required.
		foo → -ERR unknown command 'foo', with args beginning with: 
		hello 3 → -NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time
		auth shop wrong → -WRONGPASS invalid username-password pair or user is disabled.
		auth nobody secret → -WRONGPASS invalid username-password pair or user is disabled.
		get k → -NOAUTH Authentication required.
		auth shop secret → +OK
		set k shops → +OK
		script exists b70c2384248f88e6b75b9f89241a180f856ad852 → *[:0]`)
	if got := blog.do("HELLO", "3", "AUTH", "blog", "secret", "SETNAME", "me"); got.kind != '%' {
		t.Errorf("HELLO with AUTH: %v", got)
	}
	blog.expect(`
		get k → _null
		dbsize → :0
		client getname → "me"
		flushall → +OK
		set k blogs → +OK
		reset → +RESET
		get k → -NOAUTH Authentication required.`)
	shop.expect(`
		get k → "shops"
		keys * → *["k"]`)
	other.expect(`
		auth secret → +OK
		get k → $null`)
	if log := e.log.String(); strings.Contains(log, "wrong") || strings.Contains(log, "secret") {
		t.Errorf("a password is in the log: %s", log)
	}
}
