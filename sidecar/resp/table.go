package resp

import (
	"slices"
	"strings"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// The keys of a command, as clients are told.
var (
	noKeys   = keyRange{}
	oneKey   = keyRange{1, 1, 1}
	twoKeys  = keyRange{1, 2, 1}
	allKeys  = keyRange{1, -1, 1}
	keyPairs = keyRange{1, -1, 2}
)

// newTable returns the commands by name. Each server has its own, with its own counters.
func newTable() map[string]*command {
	commands := slices.Concat(stringCommands(), keyCommands(), hashCommands(), connectionCommands(), scriptCommands())
	table := make(map[string]*command, len(commands))
	for i := range commands {
		table[commands[i].name] = &commands[i]
	}
	return table
}

func stringCommands() []command {
	seconds, milliseconds := unit{seconds: true}, unit{}
	return []command{
		{name: "get", arity: 2, traits: quick, keys: oneKey, plan: plain(store.OpGet), reply: replyValue},
		{name: "set", arity: -3, traits: writes, keys: oneKey, plan: planSet, reply: replySet},
		{name: "setex", arity: 4, traits: writes, keys: oneKey, plan: planSetEx(seconds), reply: replyOK},
		{name: "psetex", arity: 4, traits: writes, keys: oneKey, plan: planSetEx(milliseconds), reply: replyOK},
		{name: "setnx", arity: 3, traits: writes | quick, keys: oneKey, plan: planSetNX, reply: replyDone},
		{name: "getset", arity: 3, traits: writes | quick, keys: oneKey, plan: planGetSet, reply: replyValue},
		{name: "getdel", arity: 2, traits: writes | quick, keys: oneKey, plan: plain(store.OpGetDel), reply: replyValue},
		{name: "getex", arity: -2, traits: writes | quick, keys: oneKey, plan: planGetEx, reply: replyValue},
		{name: "mget", arity: -2, traits: looksAtRefusals, keys: allKeys, plan: forEachKey(store.OpGet), reply: replyMGet},
		{name: "mset", arity: -3, traits: writes, keys: keyPairs, plan: planMSet, reply: replyOK},
		{name: "msetnx", arity: -3, traits: writes | notInMulti, keys: keyPairs, plan: planMSetNX, reply: replyMSetNX},
		{name: "incr", arity: 2, traits: writes | quick, keys: oneKey, plan: planIncr(1), reply: replyN},
		{name: "decr", arity: 2, traits: writes | quick, keys: oneKey, plan: planIncr(-1), reply: replyN},
		{name: "incrby", arity: 3, traits: writes | quick, keys: oneKey, plan: planIncrBy, reply: replyN},
		{name: "decrby", arity: 3, traits: writes | quick, keys: oneKey, plan: planDecrBy, reply: replyN},
		{name: "incrbyfloat", arity: 3, traits: writes | quick, keys: oneKey, plan: planIncrByFloat, reply: replyStoredValue},
		{name: "append", arity: 3, traits: writes | quick, keys: oneKey, plan: planAppend, reply: replyN},
		{name: "strlen", arity: 2, traits: quick, keys: oneKey, plan: plain(store.OpStrlen), reply: replyN},
		{name: "delifeq", arity: 3, traits: writes | quick | ends, keys: oneKey, plan: planDelIfEq, reply: replyDone},
		{name: "delex", arity: -2, traits: writes | quick | ends, keys: oneKey, plan: planDelEx, reply: replyDone},
	}
}

func keyCommands() []command {
	return []command{
		{name: "del", arity: -2, traits: writes, keys: allKeys, plan: forEachKey(store.OpDel), reply: replyHowMany},
		{name: "unlink", arity: -2, traits: writes | quick, keys: allKeys, plan: forEachKey(store.OpDel), reply: replyHowMany},
		{name: "exists", arity: -2, traits: quick, keys: allKeys, plan: forEachKey(store.OpTTL), reply: replyHowMany},
		{name: "touch", arity: -2, traits: quick, keys: allKeys, plan: forEachKey(store.OpTTL), reply: replyHowMany},
		{name: "expire", arity: -3, traits: writes | quick, keys: oneKey, plan: planExpire(unit{seconds: true}), reply: replyDone},
		{name: "pexpire", arity: -3, traits: writes | quick, keys: oneKey, plan: planExpire(unit{}), reply: replyDone},
		{name: "expireat", arity: -3, traits: writes | quick, keys: oneKey, plan: planExpire(unit{seconds: true, absolute: true}), reply: replyDone},
		{name: "pexpireat", arity: -3, traits: writes | quick, keys: oneKey, plan: planExpire(unit{absolute: true}), reply: replyDone},
		{name: "persist", arity: 2, traits: writes | quick, keys: oneKey, plan: planPersist, reply: replyDone},
		{name: "ttl", arity: 2, traits: quick, keys: oneKey, plan: plain(store.OpTTL), reply: replyTTL},
		{name: "pttl", arity: 2, traits: quick, keys: oneKey, plan: plain(store.OpTTL), reply: replyPTTL},
		{name: "type", arity: 2, traits: quick, keys: oneKey, plan: plain(store.OpTTL), reply: replyType},
		{name: "rename", arity: 3, traits: writes | notInMulti, keys: twoKeys, plan: planRename(store.Always), reply: replyRename},
		{name: "renamenx", arity: 3, traits: writes | notInMulti, keys: twoKeys, plan: planRename(store.IfAbsent), reply: replyRenameNX},
		{name: "flushdb", arity: -1, traits: writes, keys: noKeys, plan: planFlushDB, reply: replyOK},
		{name: "flushall", arity: -1, traits: writes, keys: noKeys, plan: planFlushAll, reply: replyOK},
		{name: "dbsize", arity: 1, traits: notInMulti, keys: noKeys, run: runDBSize},
		{name: "randomkey", arity: 1, traits: notInMulti, keys: noKeys, run: runRandomKey},
		{name: "keys", arity: 2, traits: notInMulti, keys: noKeys, run: runKeys},
		{name: "scan", arity: -2, traits: notInMulti, keys: noKeys, run: runScan},
	}
}

func hashCommands() []command {
	return []command{
		{name: "hset", arity: -4, traits: writes | quick, keys: oneKey, plan: planHSet, reply: replyN},
		{name: "hmset", arity: -4, traits: writes | quick, keys: oneKey, plan: planHSet, reply: replyOK},
		{name: "hget", arity: 3, traits: quick, keys: oneKey, plan: planFields(store.OpHashGet), reply: replyHGet},
		{name: "hmget", arity: -3, traits: quick, keys: oneKey, plan: planFields(store.OpHashGet), reply: replyHMGet},
		{name: "hexists", arity: 3, traits: quick, keys: oneKey, plan: planFields(store.OpHashGet), reply: replyHExists},
		{name: "hdel", arity: -3, traits: writes | quick, keys: oneKey, plan: planFields(store.OpHashDel), reply: replyN},
		{name: "hgetall", arity: 2, keys: oneKey, plan: plain(store.OpHashAll), reply: replyHGetAll},
		{name: "hkeys", arity: 2, keys: oneKey, plan: plain(store.OpHashAll), reply: replyHKeys},
		{name: "hvals", arity: 2, keys: oneKey, plan: plain(store.OpHashAll), reply: replyHVals},
		{name: "hlen", arity: 2, traits: quick, keys: oneKey, plan: plain(store.OpHashLen), reply: replyN},
		{name: "hincrby", arity: 4, traits: writes | quick | looksAtRefusals, keys: oneKey, plan: planHIncrBy, reply: replyHIncrBy},
	}
}

func connectionCommands() []command {
	return []command{
		{name: "ping", arity: -1, traits: quick, plan: planPing, reply: replyPing},
		{name: "echo", arity: 2, traits: quick, plan: planNothing, reply: replyEcho},
		{name: "select", arity: 2, traits: quick, plan: planSelect, reply: replyOK},
		{name: "auth", arity: -2, traits: quick | beforeAuth | notInMulti | ends, run: runAuth},
		{name: "hello", arity: -1, traits: quick | beforeAuth | notInMulti | ends, run: runHello},
		{name: "quit", arity: -1, traits: quick | beforeAuth | duringMulti | ends, run: runQuit},
		{name: "reset", arity: 1, traits: quick | beforeAuth | duringMulti | ends, run: runReset},
		{name: "client", arity: -2, traits: notInMulti, run: runClient},
		{name: "info", arity: -1, traits: notInMulti, run: runInfo},
		{name: "command", arity: -1, traits: notInMulti, run: runCommand},
		{name: "config", arity: -2, traits: notInMulti, run: runConfig},
		{name: "multi", arity: 1, traits: quick | duringMulti, run: runMulti},
		{name: "exec", arity: 1, traits: duringMulti | ends, run: runExec},
		{name: "discard", arity: 1, traits: quick | duringMulti | ends, run: runDiscard},
		{name: "watch", arity: -2, traits: quick | duringMulti, run: runWatch},
		{name: "unwatch", arity: 1, traits: quick | ends, plan: planNothing, reply: replyOK},
	}
}

// runCommand answers COMMAND and its subcommands COUNT, LIST, INFO and DOCS.
func runCommand(c *conn, args [][]byte) {
	if len(args) == 1 {
		c.replyCommands(c.s.names())
		return
	}
	names := make([]string, 0, len(args))
	for _, name := range args[2:] {
		names = append(names, strings.ToLower(printable(name)))
	}
	switch sub := args[1]; {
	case is(sub, "count") && len(names) == 0:
		c.w.int(int64(len(c.s.table)))
	case is(sub, "list") && len(names) == 0:
		c.replyKeys(c.s.names())
	case is(sub, "info") && len(names) == 0:
		c.replyCommands(c.s.names())
	case is(sub, "info"):
		c.replyCommands(names)
	case is(sub, "docs"): // there are none, and clients do without
		c.w.mapping(0)
	case isAny(sub, "count", "list"):
		c.w.fail(wrongArity("command|" + strings.ToLower(string(sub))))
	default:
		c.w.fail(unknownSubcommand("command", sub))
	}
}

// names returns the names of all commands.
func (s *Server) names() []string {
	names := make([]string, 0, len(s.table))
	for name := range s.table {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// replyCommands describes commands; one that is not there is null.
func (c *conn) replyCommands(names []string) {
	c.w.array(len(names))
	for _, name := range names {
		if cmd := c.s.table[name]; cmd != nil {
			c.replyCommand(cmd)
		} else {
			c.w.null()
		}
	}
}

// replyCommand describes a command in the ten elements of Redis 7, the last four empty.
func (c *conn) replyCommand(cmd *command) {
	c.w.array(10)
	c.w.bulkText(cmd.name)
	c.w.int(int64(cmd.arity))
	flags := cmd.flags()
	c.w.set(len(flags))
	for _, flag := range flags {
		c.w.simple(flag)
	}
	c.w.int(int64(cmd.keys.first))
	c.w.int(int64(cmd.keys.last))
	c.w.int(int64(cmd.keys.step))
	c.w.set(0)   // categories
	c.w.array(0) // tips
	c.w.array(0) // where keys are, in full
	c.w.array(0) // subcommands
}

// flags are the command's traits in Redis' words.
func (cmd *command) flags() []string {
	var flags []string
	switch {
	case cmd.has(writes):
		flags = append(flags, "write")
	case cmd.keys != noKeys:
		flags = append(flags, "readonly")
	}
	for _, f := range []struct {
		trait trait
		word  string
	}{{quick, "fast"}, {beforeAuth, "no_auth"}, {notInMulti, "no_multi"}} {
		if cmd.has(f.trait) {
			flags = append(flags, f.word)
		}
	}
	return flags
}
