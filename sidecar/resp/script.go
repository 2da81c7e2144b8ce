package resp

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// script is a Lua script that stands for one store command.
type script struct {
	ends       bool // it releases or extends a lock: see the trait of that name
	keys, args int  // how many it uses
	plan       func(c *conn, q *call, key []byte, args [][]byte) failure
	reply      func(*conn, *call)
}

// errScript tells what to use instead of a script that is not known.
const errScript failure = "ERR this script is not served. Known are compare-and-delete, compare-and-expire and Laravel's add. " +
	"Use DELIFEQ key value, SET with NX or IFEQ, or MULTI instead; for Symfony's lock store, the package coatcheck/symfony"

// knownScripts are the scripts that are served, by their normal form (see normalLua). Each is what lock libraries
// send: phpredis' session handler, Laravel, Redlock and the many that copied them.
var knownScripts = func() map[string]*script {
	known := make(map[string]*script)
	add := func(s *script, texts ...string) {
		for _, text := range texts {
			normal, ok := normalLua([]byte(text))
			if !ok {
				panic("resp: a known script has no normal form: " + text)
			}
			known[normal] = s
		}
	}
	// whenOwner are the ways to write: do this when the value is ARGV[1], answer 0 otherwise.
	whenOwner := func(then string) []string {
		var texts []string
		for _, condition := range []string{
			`redis.call("get",KEYS[1]) == ARGV[1]`,
			`ARGV[1] == redis.call("get",KEYS[1])`,
		} {
			texts = append(texts,
				"if "+condition+" then "+then+" else return 0 end",
				"if "+condition+" then "+then+" end return 0")
		}
		return texts
	}
	for _, del := range []string{"del", "unlink"} {
		add(&script{true, 1, 1, planOwnerDel, replyDone}, whenOwner(`return redis.call("`+del+`",KEYS[1])`)...)
	}
	for name, u := range map[string]unit{
		"expire": {seconds: true}, "pexpire": {}, "expireat": {seconds: true, absolute: true}, "pexpireat": {absolute: true},
	} {
		add(&script{true, 1, 2, planOwnerExpire(name, u), replyDone}, whenOwner(`return redis.call("`+name+`",KEYS[1],ARGV[2])`)...)
	}
	add(&script{true, 1, 2, planOwnerRefresh, replyRefresh}, whenOwner(
		`if tonumber(ARGV[2]) > 0 then return redis.call("expire",KEYS[1],ARGV[2]) end redis.call("persist",KEYS[1]) return 1`)...)
	add(&script{false, 1, 2, planLaravelAdd, replySet},
		`return redis.call("exists",KEYS[1]) < 1 and redis.call("setex",KEYS[1],ARGV[2],ARGV[1])`)
	return known
}()

// planOwnerDel deletes the key while its value is args[0].
func planOwnerDel(c *conn, _ *call, key []byte, args [][]byte) failure {
	cmd := c.add(store.OpDel, key)
	cmd.If, cmd.Match = store.IfEqual, args[0]
	return ""
}

// planOwnerExpire sets the key's expiry to args[1] while its value is args[0].
func planOwnerExpire(name string, u unit) func(*conn, *call, []byte, [][]byte) failure {
	return func(c *conn, _ *call, key []byte, args [][]byte) failure {
		n, ok := parseInt(args[1])
		if !ok {
			return errNotInteger
		}
		if n, ok = u.milliseconds(n); !ok {
			return invalidExpiry(name)
		}
		cmd := c.add(store.OpExpire, key)
		// The old value is wanted for its type only: a hash is an error, as the script's get would make it.
		cmd.If, cmd.Match, cmd.WantOld = store.IfEqual, args[0], true
		u.setOrPast(cmd, n)
		return ""
	}
}

// planOwnerRefresh is Laravel's way to refresh a lock: args[1] seconds, or no expiry when that is not above 0.
func planOwnerRefresh(c *conn, q *call, key []byte, args [][]byte) failure {
	n, ok := parseInt(args[1])
	if !ok {
		return errNotInteger
	}
	if n > 0 {
		return planOwnerExpire("expire", unit{seconds: true})(c, q, key, args)
	}
	cmd := c.add(store.OpExpire, key)
	cmd.If, cmd.Match, cmd.WantOld = store.IfEqual, args[0], true
	return ""
}

// replyRefresh answers whether the value was the owner's, also when it had no expiry that could be removed.
func replyRefresh(c *conn, q *call) { c.w.flag(q.rs[0].Found) }

// planLaravelAdd sets the key to args[0] for args[1] seconds when it is missing.
func planLaravelAdd(c *conn, _ *call, key []byte, args [][]byte) failure {
	cmd := c.add(store.OpSet, key)
	cmd.Value, cmd.If = args[0], store.IfAbsent
	return expireIn(cmd, unit{seconds: true}, args[1], "setex")
}

// scripts remembers, per tenant, which digests of scripts have been seen. It is safe for concurrent use.
type scripts struct {
	mu    sync.Mutex
	known map[string]map[digest]*script // guarded by mu: by tenant
}

// digest names a script: the SHA-1 of its text, in lower-case hexadecimal digits.
type digest [2 * sha1.Size]byte

// maxScripts is how many texts of scripts are remembered for a tenant. When there are more, all are forgotten; clients
// send the text again when they are told NOSCRIPT.
const maxScripts = 1_000

func newScripts() *scripts { return &scripts{known: make(map[string]map[digest]*script)} }

func digestOf(text []byte) (d digest) {
	sum := sha1.Sum(text)
	hex.Encode(d[:], sum[:])
	return d
}

// learn remembers a text and returns its script, or nil when it is not one of the known.
func (s *scripts) learn(tenant string, text []byte) (digest, *script) {
	d := digestOf(text)
	if known := s.find(tenant, d); known != nil {
		return d, known
	}
	normal, ok := normalLua(text)
	known := knownScripts[normal]
	if !ok || known == nil {
		return d, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[tenant] == nil || len(s.known[tenant]) >= maxScripts {
		s.known[tenant] = make(map[digest]*script)
	}
	s.known[tenant][d] = known
	return d, known
}

// find returns the script of a digest that was learnt, or nil.
func (s *scripts) find(tenant string, d digest) *script {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[tenant][d]
}

// forget forgets a tenant's scripts.
func (s *scripts) forget(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, tenant)
}

// parseDigest reads a digest, in upper or lower case.
func parseDigest(b []byte) (d digest, ok bool) {
	if len(b) != len(d) {
		return d, false
	}
	copy(d[:], strings.ToLower(string(b)))
	return d, true
}

func scriptCommands() []command {
	return []command{
		{name: "eval", arity: -3, traits: writes, ends: evalEnds, keys: keyRange{}, plan: planEval, reply: nil},
		{name: "evalsha", arity: -3, traits: writes, ends: evalSHAEnds, keys: keyRange{}, plan: planEvalSHA, reply: nil},
		{name: "script", arity: -2, traits: notInMulti, run: runScript},
	}
}

// evalEnds says whether EVAL sends a script that ends something.
func evalEnds(c *conn, args [][]byte) bool {
	_, s := c.s.scripts.learn(c.space.Tenant, args[1])
	return s != nil && s.ends
}

// evalSHAEnds says whether EVALSHA names a script that ends something. One that was not sent yet may be, and does nothing: who
// sends it for a release must be told to send the text.
func evalSHAEnds(c *conn, args [][]byte) bool {
	d, ok := parseDigest(args[1])
	s := c.s.scripts.find(c.space.Tenant, d)
	return !ok || s == nil || s.ends
}

// planEval reads EVAL text keys key… arg….
func planEval(c *conn, q *call) failure {
	key, args, f := scriptArguments(q.args[2:])
	if f != "" {
		return f
	}
	_, s := c.s.scripts.learn(c.space.Tenant, q.args[1])
	if s == nil {
		return errScript
	}
	return s.planFor(c, q, key, args)
}

// planEvalSHA reads EVALSHA digest keys key… arg….
func planEvalSHA(c *conn, q *call) failure {
	key, args, f := scriptArguments(q.args[2:])
	if f != "" {
		return f
	}
	d, ok := parseDigest(q.args[1])
	s := c.s.scripts.find(c.space.Tenant, d)
	if !ok || s == nil {
		return errNoScript
	}
	return s.planFor(c, q, key, args)
}

// planFor plans a call of the script, whose arguments beyond those that it uses do not matter.
func (s *script) planFor(c *conn, q *call, keys, args [][]byte) failure {
	if len(keys) < s.keys || len(args) < s.args {
		return errScriptArg
	}
	q.reply = s.reply
	return s.plan(c, q, keys[0], args)
}

// scriptArguments splits the number of keys, the keys and the other arguments.
func scriptArguments(args [][]byte) (keys, rest [][]byte, f failure) {
	n, ok := parseInt(args[0])
	args = args[1:]
	switch {
	case !ok:
		return nil, nil, errNotInteger
	case n > int64(len(args)):
		return nil, nil, "ERR Number of keys can't be greater than number of args"
	case n < 0:
		return nil, nil, "ERR Number of keys can't be negative"
	}
	return args[:n], args[n:], ""
}

// runScript answers SCRIPT LOAD, EXISTS and FLUSH.
func runScript(c *conn, args [][]byte) {
	switch sub, rest := args[1], args[2:]; {
	case is(sub, "load") && len(rest) == 1:
		d, s := c.s.scripts.learn(c.space.Tenant, rest[0])
		if s == nil {
			c.w.fail(errScript)
			return
		}
		c.w.bulk(d[:])
	case is(sub, "exists") && len(rest) > 0:
		c.w.array(len(rest))
		for _, name := range rest {
			d, ok := parseDigest(name)
			c.w.flag(ok && c.s.scripts.find(c.space.Tenant, d) != nil)
		}
	case is(sub, "flush") && len(rest) == 0, is(sub, "flush") && len(rest) == 1 && isAny(rest[0], "sync", "async"):
		c.s.scripts.forget(c.space.Tenant)
		c.w.ok()
	case is(sub, "flush"):
		c.w.fail("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	case isAny(sub, "load", "exists"):
		c.w.fail(wrongArity("script|" + strings.ToLower(string(sub))))
	default:
		c.w.fail(unknownSubcommand("script", sub))
	}
}
