package resp

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// twins are a redis-server and an endpoint that are sent the same.
type twins struct {
	t           *testing.T
	redis, ours *raw
	sent        []string // since the last reset, for messages
}

func newTwins(t *testing.T, version string) *twins {
	t.Helper()
	w := &twins{t: t, redis: dial(t, startRedis(t)), ours: dial(t, startEndpoint(t).resp)}
	for _, c := range []*raw{w.redis, w.ours} {
		if r := c.do("HELLO", version); r.isError() {
			t.Fatalf("HELLO %s: %v", version, r)
		}
	}
	return w
}

// same sends both a command and fails when their replies differ.
func (w *twins) same(args ...string) {
	w.t.Helper()
	w.sent = append(w.sent, strings.Join(quoted(args), " "))
	want, got := w.redis.do(args...), w.ours.do(args...)
	if !alike(args, want, got) {
		w.t.Fatalf("%s\nredis: %v\nours:  %v", strings.Join(w.sent[max(0, len(w.sent)-40):], "\n"), want, got)
	}
}

func quoted(args []string) []string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = fmt.Sprintf("%.80q", arg)
	}
	return words
}

// unordered are the commands whose elements come in any order, and whether these are pairs.
var unordered = map[string]bool{"keys": false, "hkeys": false, "hvals": false, "hgetall": true}

// clockSlack is how much the two servers' clocks, and the moments at which they are asked, may differ.
const clockSlack = 2 * time.Second

// alike says whether two replies mean the same to a client.
func alike(args []string, want, got reply) bool {
	command := strings.ToLower(args[0])
	if pairs, ok := unordered[command]; ok {
		want, got = want.sorted(pairs), got.sorted(pairs)
	}
	slack := int64(0)
	switch command {
	case "ttl":
		slack = int64(clockSlack / time.Second)
	case "pttl":
		slack = clockSlack.Milliseconds()
	case "scan":
		return alikeScan(want, got)
	}
	if slack > 0 && want.kind == ':' && got.kind == ':' && want.number() > 0 {
		difference := want.number() - got.number()
		return difference <= slack && -difference <= slack
	}
	if command == "eval" || command == "evalsha" { // Redis adds where in the script the error came up
		before, _, _ := strings.Cut(want.text, " script: ")
		want.text = before
	}
	return want.String() == got.String()
}

// alikeScan compares the keys that a scan found, in any order.
func alikeScan(want, got reply) bool {
	if want.isError() || got.isError() {
		return want.String() == got.String()
	}
	return want.elements[1].sorted(false).String() == got.elements[1].sorted(false).String()
}

// cases are sequences that begin with empty databases, one command a line. Words in quotes may have blanks.
var cases = map[string]string{
	"get and set": `
		get k
		set k v
		get k
		set k ""
		get k
		set k "a b"
		get k
		set
		set k
		get
		get a b
		set k v foo
		set k v nx
		set n v nx
		set k v xx
		set m v xx
		set k v nx xx
		set k v xx nx
		set k v nx nx
		set k v get
		set new v get
		set k v nx get
		set new2 v nx get
		set k w xx get
		set new3 w xx get
		get new3
		hset h f v
		set h v get
		set h v nx get
		get h
		hget h f
		set h v
		get h
		SET k UPPER
		GeT k`,
	"set with expiry": `
		set k v ex 100
		ttl k
		pttl k
		set k v px 100000
		ttl k
		set k v
		ttl k
		set k v ex 100
		set k w keepttl
		ttl k
		get k
		set k w keepttl ex 10
		set k w ex 10 keepttl
		set k w ex 10 px 10
		set k w ex
		set k w ex a
		set k w ex 0
		set k w ex -1
		set k w px 0
		set k w ex 9223372036854775807
		set k w px 9223372036854775807
		set k w ex 9223372036854775
		set k w ex 10a
		set k w exat 4102444800
		ttl k
		set k w pxat 4102444800000
		pttl k
		set k w exat 0
		set k w exat a
		set k w exat 1
		get k
		exists k
		set k v ex 100 nx get
		ttl k
		set k v ex 200 nx get
		ttl k
		set k v nx ex 100
		set k v ex 300 xx
		ttl k`,
	"setex, psetex, setnx": `
		setex k 100 v
		ttl k
		psetex k 200000 v
		ttl k
		setex k 0 v
		setex k -1 v
		psetex k 0 v
		setex k a v
		setex k 9223372036854775807 v
		psetex k 9223372036854775807 v
		setex k 10
		setnx k v
		setnx n v
		ttl n
		setnx n
		hset h f v
		setnx h v
		setex h 10 v
		type h`,
	"getset, getdel, getex": `
		getset k v
		getset k w
		get k
		set k v ex 100
		getset k w
		ttl k
		hset h f v
		getset h v
		getdel h
		getdel k
		getdel k
		getex k
		set k v
		getex k
		ttl k
		getex k ex 100
		ttl k
		getex k px 200000
		ttl k
		getex k persist
		ttl k
		getex k persist
		getex k exat 4102444800
		ttl k
		getex k pxat 4102444800000
		getex k ex
		getex k ex 0
		getex k ex a
		getex k ex 10 px 10
		getex k persist ex 10
		getex k foo
		getex h
		getex h ex 10
		ttl h
		getex missing ex 10
		getex k pxat 1
		exists k`,
	"mget, mset, msetnx": `
		mget a b
		mset a 1 b 2
		mget a b c
		mget a a
		hset h f v
		mget a h
		mset a
		mset a 1 b
		mset h x a y
		mget h a
		mset a 1 a 2
		get a
		set t v ex 100
		mset t w
		ttl t
		msetnx a 1 z 2
		exists z
		msetnx y 1 z 2
		mget y z
		msetnx q 1 q 2
		get q
		msetnx a
		msetnx a 1 b
		mget`,
	"incr and decr": `
		incr n
		incr n
		incrby n 10
		decr n
		decrby n 5
		get n
		incrby n a
		incrby n 1.5
		incrby n " 1"
		incrby n +1
		incrby n 01
		incrby n -0
		incrby n 9223372036854775807
		set n 9223372036854775807
		incr n
		get n
		set n -9223372036854775808
		decr n
		decrby n -9223372036854775808
		incrby n -9223372036854775808
		incrby n 9223372036854775808
		set n abc
		incr n
		set n ""
		incr n
		set n " 1"
		incr n
		set n 1
		expire n 100
		incr n
		ttl n
		hset h f v
		incr h
		decrby h 1
		incr
		incrby n
		set n 007
		incr n
		set n 99999999999999999999
		incr n`,
	"incrbyfloat": `
		incrbyfloat f 0.1
		incrbyfloat f 0.2
		get f
		incrbyfloat f 1e3
		incrbyfloat f -1000.3
		incrbyfloat f a
		incrbyfloat f ""
		incrbyfloat f " 1"
		incrbyfloat f 1.5e-3
		incrbyfloat f 5.0
		set f 10.50
		incrbyfloat f 0.1
		set f 3.0e3
		incrbyfloat f 200
		set f abc
		incrbyfloat f 1
		incrbyfloat g 5
		incr g
		incrbyfloat g 1e5000
		incrbyfloat g 1e4932
		incrbyfloat z -0.5
		incrbyfloat z 0.5
		incrbyfloat z 1e-20
		incrbyfloat z 12345678901234567890.5
		hset h f v
		incrbyfloat h 1
		set f 1 ex 100
		incrbyfloat f 1.5
		ttl f
		incrbyfloat f nan`,
	"append and strlen": `
		append k abc
		append k def
		get k
		append k ""
		strlen k
		strlen missing
		hset h f v
		strlen h
		append h v
		append k
		strlen
		expire k 100
		append k x
		ttl k
		append e ""
		exists e
		get e`,
	"del, unlink, exists, touch, type": `
		del a
		mset a 1 b 2 c 3
		exists a b c d
		exists a a a
		del a b x
		unlink c
		del a a
		exists
		del
		mset a 1 b 2
		touch a b z
		del a a b
		touch
		set s v
		hset h f v
		type s
		type h
		type missing
		type
		unlink h s`,
	"expire": `
		expire k 10
		set k v
		expire k 100
		ttl k
		pexpire k 200000
		ttl k
		expireat k 4102444800
		ttl k
		pexpireat k 4102444800000
		pttl k
		persist k
		persist k
		persist missing
		ttl k
		pttl k
		ttl missing
		pttl missing
		expire k a
		expire k
		expire k 9223372036854775807
		expire k -9223372036854775807
		pexpire k 9223372036854775807
		expireat k 9223372036854775807
		pexpireat k 9223372036854775807
		pexpire k 1 foo
		expire k 100 nx
		expire k 200 nx
		ttl k
		expire k 200 xx
		ttl k
		expire k 100 gt
		ttl k
		expire k 300 gt
		ttl k
		expire k 400 lt
		ttl k
		expire k 200 lt
		ttl k
		persist k
		expire k 100 xx
		expire k 100 gt
		expire k 100 xx gt
		expire k 100 xx lt
		ttl k
		expire k 100 lt
		ttl k
		expire k 50 xx lt
		ttl k
		expire k 70 xx lt
		ttl k
		expire k 700 xx gt
		ttl k
		expire k 10 nx xx
		expire k 10 nx gt
		expire k 10 nx lt
		expire k 10 gt lt
		expire k 10 nx foo
		expire k 10 NX XX
		expire k 0
		exists k
		set k v
		expire k -1
		exists k
		set k v
		expireat k 1
		exists k
		set k v
		pexpireat k 0
		exists k
		set k v
		expire k -1 gt
		exists k
		expire k 100
		expire k -1 nx
		expire k -1 xx
		exists k
		hset h f v
		expire h 100
		ttl h
		persist h
		ttl h`,
	"keys and scan": `
		keys *
		mset one 1 two 2 three 3 "with blank" 4 k[1] 5 k-1 6
		hset hash f v
		keys *
		keys t*
		keys t?o
		keys [ot]*
		keys [^o]*
		keys [a-o]*
		keys k\[1\]
		keys k[[]1]
		keys k[-]1
		keys *e*e*
		keys ""
		keys one
		keys t[gx
		keys
		scan 0 count 1000
		scan 0 count 1000 match t*
		scan 0 count 1000 type hash
		scan 0 count 1000 type string
		scan 0 count 1000 type list
		scan 0 count 0
		scan 0 count a
		scan 0 count
		scan a
		scan 0 foo bar
		scan
		dbsize
		flushdb
		dbsize
		randomkey
		set only v
		randomkey
		flushall
		keys *
		flushdb async
		flushdb sync
		flushdb foo
		flushall async
		flushall foo`,
	"rename": `
		rename a b
		set a v
		rename a b
		get b
		exists a
		rename b b
		set c w ex 100
		rename c b
		ttl b
		get b
		hset h f v
		rename h b
		type b
		hget b f
		renamenx b x
		set y v
		renamenx y x
		renamenx y z
		renamenx missing z
		rename a
		renamenx a`,
	"hashes": `
		hset h a 1
		hset h a 2 b 3
		hget h a
		hget h x
		hget x a
		hmget h a b c
		hmget x a b
		hgetall h
		hgetall x
		hkeys h
		hvals h
		hkeys x
		hvals x
		hlen h
		hlen x
		hexists h a
		hexists h x
		hexists x a
		hincrby h n 5
		hincrby h n -7
		hincrby h n a
		hset h t text
		hincrby h t 1
		hset h big 9223372036854775807
		hincrby h big 1
		hdel h a x
		hdel x a
		hdel h b n t big
		exists h
		hset h a ""
		hget h a
		hset h "" v
		hget h ""
		hmset h c 1 d 2
		hmget h c d
		hset h a
		hset h
		hset h a 1 b
		hmset h a
		hget h
		hmget h
		hdel h
		hincrby h a
		hgetall
		hlen
		set s v
		hset s f v
		hget s f
		hmget s f
		hdel s f
		hgetall s
		hkeys s
		hvals s
		hlen s
		hexists s f
		hincrby s f 1
		hmset s f v
		expire h 100
		hset h z 1
		ttl h
		hdel h a "" c d z
		ttl h`,
	"multi": `
		multi
		set a 1
		incr a
		get a
		hset h f v
		hgetall h
		mget a b
		ttl a
		exec
		get a
		exec
		discard
		multi
		multi
		set a 2
		discard
		get a
		multi
		set a
		set a 3
		exec
		get a
		multi
		foo
		exec
		multi
		hget a f
		incr h
		set b 1
		incrby b x
		exec
		get b
		multi
		exec
		multi
		ping
		echo hi
		select 1
		set in1 v
		select 0
		get in1
		exec
		get in1
		select 1
		get in1
		select 0
		multi
		setex k 100 v
		setex l 100 v
		exec
		ttl k
		multi
		getdel k
		del l missing
		exists k l
		expire a 100
		persist a
		set a 9 nx get
		type h
		append a z
		strlen a
		incrbyfloat f 0.5
		exec
		multi
		flushdb
		set after v
		exec
		keys *
		multi 1
		exec 1
		unwatch
		multi
		unwatch
		exec`,
	"select": `
		set k zero
		select 1
		get k
		set k one
		dbsize
		select 0
		get k
		select 2
		dbsize
		select a
		select -1
		select 65536
		select
		select 1
		flushdb
		select 0
		get k
		select 1
		set k one
		flushall
		select 0
		dbsize`,
	"connection": `
		ping
		ping hello
		ping a b
		echo hello
		echo
		client setname me
		client getname
		client setname "a b"
		client getname
		client setname ""
		client getname
		client foo
		client id x
		config get save
		config get appendonly
		config get nothing
		config get
		config foo
		hello 4
		hello a
		hello 3 foo
		auth secret
		auth default whatever
		auth somebody secret
		auth a b c
		auth
		foo
		foo bar baz
		get a b c d
		command count x
		command info nothing
		command docs nothing
		command foo
		reset
		client getname
		ping`,
	"scripts": `
		script exists b70c2384248f88e6b75b9f89241a180f856ad852
		evalsha b70c2384248f88e6b75b9f89241a180f856ad852 1 k token
		evalsha short 1 k token
		set k token
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end' 1 k other
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end' 1 k token
		exists k
		script exists b70c2384248f88e6b75b9f89241a180f856ad852 x
		set k token
		evalsha B70C2384248F88E6B75B9F89241A180F856AD852 1 k token
		evalsha b70c2384248f88e6b75b9f89241a180f856ad852 1 k token
		script flush
		script flush sync
		script flush foo
		evalsha b70c2384248f88e6b75b9f89241a180f856ad852 1 k token
		script load 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end'
		script load
		script exists
		script foo
		set k token
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end' 1 k token 100000
		ttl k
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end' 1 k other 200000
		ttl k
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end' 1 missing other 200000
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end' 1 k token a
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("expire",KEYS[1],ARGV[2]) else return 0 end' 1 k token 300
		ttl k
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("expire",KEYS[1],ARGV[2]) else return 0 end' 1 k token 0
		exists k
		eval 'return redis.call("exists",KEYS[1])<1 and redis.call("setex",KEYS[1],ARGV[2],ARGV[1])' 1 add v 100
		eval 'return redis.call("exists",KEYS[1])<1 and redis.call("setex",KEYS[1],ARGV[2],ARGV[1])' 1 add w 200
		get add
		ttl add
		eval 'return redis.call("exists",KEYS[1])<1 and redis.call("setex",KEYS[1],ARGV[2],ARGV[1])' 1 add2 v 0
		eval 'return redis.call("exists",KEYS[1])<1 and redis.call("setex",KEYS[1],ARGV[2],ARGV[1])' 1 add2 v a
		hset h f v
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end' 1 h token
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("expire",KEYS[1],ARGV[2]) else return 0 end' 1 h token 10
		eval 'return redis.call("exists",KEYS[1])<1 and redis.call("setex",KEYS[1],ARGV[2],ARGV[1])' 1 h v 10
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end' a k token
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end' -1 k token
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end' 3 k token
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end' 0 k token
		set k token ex 100
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then if tonumber(ARGV[2]) > 0 then return redis.call("expire",KEYS[1],ARGV[2]) end redis.call("persist",KEYS[1]) return 1 else return 0 end' 1 k token 0
		ttl k
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then if tonumber(ARGV[2]) > 0 then return redis.call("expire",KEYS[1],ARGV[2]) end redis.call("persist",KEYS[1]) return 1 else return 0 end' 1 k token 0
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then if tonumber(ARGV[2]) > 0 then return redis.call("expire",KEYS[1],ARGV[2]) end redis.call("persist",KEYS[1]) return 1 else return 0 end' 1 k token 50
		ttl k
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then if tonumber(ARGV[2]) > 0 then return redis.call("expire",KEYS[1],ARGV[2]) end redis.call("persist",KEYS[1]) return 1 else return 0 end' 1 k other 50
		multi
		eval 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end' 1 k token
		evalsha 0000000000000000000000000000000000000000 1 k token
		exec
		exists k`,
}

// words splits a line of a case.
func words(line string) (args []string) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if quote := line[0]; quote == '"' || quote == '\'' {
			end := strings.IndexByte(line[1:], quote) + 1
			args, line = append(args, line[1:end]), line[end+1:]
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		args, line = append(args, word), rest
	}
	return args
}

func TestEveryCommandAnswersAsRedisDoes(t *testing.T) {
	for _, version := range []string{"2", "3"} {
		w := newTwins(t, version)
		for name, lines := range cases {
			t.Run("RESP"+version+"/"+name, func(t *testing.T) {
				w.t, w.redis.t, w.ours.t = t, t, t
				w.sent = nil
				w.same("HELLO-is-asked-first")
				w.redis.do("HELLO", version)
				w.ours.do("HELLO", version)
				w.same("FLUSHALL")
				w.same("SCRIPT", "FLUSH")
				for line := range strings.Lines(lines) {
					if args := words(line); len(args) > 0 {
						w.same(args...)
					}
				}
			})
		}
	}
}

var (
	seed  = flag.Uint64("seed", 0, "of the random sequences; 0: a new one")
	steps = flag.Int("steps", 6_000, "of the random sequences")
)

func TestRandomSequencesAnswerAsRedisDoes(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	w := newTwins(t, "2")
	g := newGenerator(0)
	for range *steps {
		if g.IntN(20) == 0 {
			w.same("MULTI")
			for range g.IntN(5) {
				w.same(g.exact()...)
			}
			w.same("EXEC")
			continue
		}
		w.same(g.command()...)
	}
	w.same("KEYS", "*")
	for _, key := range keys {
		w.same("TYPE", key)
		w.same("PTTL", key)
	}
}

// generator makes random commands.
type generator struct {
	*rand.Rand
	times *int // how many times of expiry were made
}

func newGenerator(stream uint64) generator {
	return generator{rand.New(rand.NewPCG(*seed, stream)), new(int)}
}

// keys are few, so that commands meet each other's effects.
var keys = []string{"a", "b", "c", "d", "h", "n", "long"}

func pick[T any](g generator, list []T) T { return list[g.IntN(len(list))] }

func (g generator) key() string { return pick(g, keys) }

func (g generator) value() string {
	switch g.IntN(6) {
	case 0:
		return fmt.Sprint(g.IntN(200) - 100)
	case 1:
		return strings.Repeat(string(rune('a'+g.IntN(3))), g.IntN(3_000)) // long enough to be compressed
	case 2:
		return ""
	case 3:
		return "\x00\r\n\xff" + fmt.Sprint(g.IntN(3))
	}
	return pick(g, []string{"x", "y", "z", "token"})
}

func (g generator) number() string {
	return pick(g, []string{"0", "1", "-1", "7", "100", "9223372036854775807", "-9223372036854775808", "a", "1.5", ""})
}

// seconds are far enough off that no key expires while the sequence runs, or over. No two are the same: which of two
// equal ones is later (GT, LT) would depend on the millisecond in which each server looked at its clock.
func (g generator) seconds() string {
	*g.times++
	later := func(from int) string { return fmt.Sprint(from + *g.times*10) }
	return pick(g, []string{later(1_000), later(1_000_000), later(2_000_000), "0", "-1", "x"})
}

func (g generator) maybe(words ...string) []string {
	if g.IntN(2) == 0 {
		return nil
	}
	return words
}

// exact makes a command whose reply can be compared as it is, inside of another.
func (g generator) exact() []string {
	for {
		command := g.command()
		_, anyOrder := unordered[strings.ToLower(command[0])]
		if !anyOrder && !strings.HasSuffix(command[0], "TTL") {
			return command
		}
	}
}

// command makes one command.
func (g generator) command() []string {
	field := func() string { return pick(g, []string{"f", "g", "n", ""}) }
	k := g.key()
	all := [][]string{
		{"GET", k},
		{"GETDEL", k},
		{"STRLEN", k},
		{"TYPE", k},
		{"TTL", k},
		{"PTTL", k},
		{"PERSIST", k},
		{"EXISTS", k, g.key()},
		append(append([]string{"SET", k, g.value()}, g.maybe(pick(g, []string{"NX", "XX", "GET"}))...),
			g.maybe(pick(g, []string{"EX", "PX"}), g.seconds())...),
		append([]string{"SET", k, g.value()}, g.maybe(pick(g, []string{"KEEPTTL", "GET", "nx"}))...),
		{"SETNX", k, g.value()},
		{"SETEX", k, g.seconds(), g.value()},
		{"PSETEX", k, g.seconds() + "000", g.value()},
		{"GETSET", k, g.value()},
		append([]string{"GETEX", k}, g.maybe("EX", g.seconds())...),
		{"GETEX", k, "PERSIST"},
		{"MGET", k, g.key(), g.key()},
		{"MSET", k, g.value(), g.key(), g.value()},
		{"INCR", k},
		{"DECR", k},
		{"INCRBY", k, g.number()},
		{"DECRBY", k, g.number()},
		{"INCRBYFLOAT", k, pick(g, []string{"0.1", "1.25", "-3e2", "x", "1e-3"})},
		{"INCR", "n"},
		{"INCRBY", "n", "1000"},
		{"APPEND", k, g.value()},
		{"APPEND", "long", g.value()},
		{"DEL", k, g.key()},
		{"DEL", k},
		{"UNLINK", k},
		{"TOUCH", k, g.key()},
		append([]string{"EXPIRE", k, g.seconds()}, g.maybe(pick(g, []string{"NX", "XX", "GT", "LT"}))...),
		append([]string{"PEXPIRE", k, g.seconds() + "000"}, g.maybe("XX", pick(g, []string{"GT", "LT"}))...),
		{"EXPIREAT", k, pick(g, []string{"4102444800", "1", "x"})},
		{"PEXPIREAT", k, pick(g, []string{"4102444800000", "1"})},
		{"HSET", k, field(), g.value()},
		{"HSET", "h", field(), g.value(), field(), g.value()},
		{"HGET", "h", field()},
		{"HGET", k, field()},
		{"HMGET", "h", field(), field()},
		{"HDEL", "h", field()},
		{"HGETALL", "h"},
		{"HKEYS", "h"},
		{"HVALS", "h"},
		{"HLEN", k},
		{"HEXISTS", "h", field()},
		{"HINCRBY", "h", field(), g.number()},
	}
	return pick(g, all)
}

// This one has the commands that MULTI does not take, and SELECT.
func TestRandomSequencesOverBucketsAnswerAsRedisDoes(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	w := newTwins(t, "3")
	g := newGenerator(1)
	for range *steps / 4 {
		switch g.IntN(12) {
		case 0:
			w.same("SELECT", fmt.Sprint(g.IntN(3)))
		case 1:
			w.same("RENAME", g.key(), g.key())
		case 2:
			w.same("RENAMENX", g.key(), g.key())
		case 3:
			w.same("MSETNX", g.key(), g.value(), g.key(), g.value())
		case 4:
			w.same("KEYS", pick(g, []string{"*", "[a-c]", "?", "l*g", "[^a]*"}))
		case 5:
			w.same("SCAN", "0", "COUNT", "1000", "MATCH", pick(g, []string{"*", "[a-c]", "?", "lo*"}))
		case 6:
			w.same("DBSIZE")
		case 7:
			if g.IntN(20) == 0 {
				w.same(pick(g, []string{"FLUSHDB", "FLUSHALL"}))
			}
		default:
			w.same(g.command()...)
		}
	}
}

func TestKeysExpireAsInRedis(t *testing.T) {
	w := newTwins(t, "2")
	w.same("SET", "a", "v", "PX", "30")
	w.same("HSET", "h", "f", "v")
	w.same("PEXPIRE", "h", "30")
	w.same("PSETEX", "c", "30", "5")
	for _, c := range []*raw{w.redis, w.ours} {
		eventually(t, "the keys expire", func() bool { return c.line("EXISTS a h c").text == "0" })
	}
	for _, command := range []string{
		"GET a", "TTL a", "PTTL h", "TYPE h", "HGETALL h", "INCR c", "TTL c", "SET a w XX", "SET a w NX", "DEL h", "KEYS *", "DBSIZE",
	} {
		w.same(strings.Fields(command)...)
	}
}
