package resp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// failure is an error as the client is told: an upper-case class, a blank, a sentence. Empty means none.
type failure string

// class is the first word, which clients look at.
func (f failure) class() string {
	class, _, _ := strings.Cut(string(f), " ")
	return class
}

// The failures of Redis, in its words, for clients that compare them.
const (
	errSyntax      failure = "ERR syntax error"
	errNotInteger  failure = "ERR value is not an integer or out of range"
	errNotFloat    failure = "ERR value is not a valid float"
	errNoKey       failure = "ERR no such key"
	errWrongType   failure = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errIndex       failure = "ERR DB index is out of range"
	errNoAuth      failure = "NOAUTH Authentication required."
	errWrongPass   failure = "WRONGPASS invalid username-password pair or user is disabled."
	errNoScript    failure = "NOSCRIPT No matching script. Please use EVAL."
	errExecAbort   failure = "EXECABORT Transaction discarded because of previous errors."
	errCursor      failure = "ERR invalid cursor"
	errFull        failure = "OOM command not allowed when used memory > 'maxmemory'."
	errLongString  failure = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	errScriptArg   failure = "ERR Lua redis lib command arguments must be strings or integers"
	errNX          failure = "ERR NX and XX, GT or LT options at the same time are not compatible"
	errGTLT        failure = "ERR GT and LT options at the same time are not compatible"
	errBadProto    failure = "NOPROTO unsupported protocol version"
	errMaxClients  failure = "ERR max number of clients reached"
	errNotIntProto failure = "ERR Protocol version is not an integer or out of range"
)

// Failures that Redis does not have.
const (
	errKeyLength  failure = "ERR a key must have 1 to 65535 bytes"
	errLargeReply failure = "ERR the reply would be larger than redis.output_buffer allows; ask for less at a time"
	errNotInMulti failure = "ERR Command not allowed inside a transaction"
	errWatch      failure = "ERR WATCH is not served: use SET with IFEQ, or DELIFEQ, which compare and act in one step"
	errDigest     failure = "ERR IFDEQ and IFDNE are not served: use IFEQ or IFNE"
)

// refusals are the failures of refused commands.
var refusals = map[store.Reason]failure{
	store.NotInteger: errNotInteger,
	store.Overflow:   "ERR increment or decrement would overflow",
	store.TooLong:    errLongString,
	store.WrongType:  errWrongType,
	store.NotFloat:   errNotFloat,
	store.NotFinite:  "ERR increment would produce NaN or Infinity",
}

// refusal says why a result is one that was refused.
func refusal(r *store.Result) failure {
	if r.Reason == store.Full {
		setting := "memory.limit"
		if r.Stats.Own {
			setting = "the tenant's memory_limit, or memory.tenant_limit"
		}
		return failure(fmt.Sprintf("%s %d bytes are needed, %d of %d are in use (%s)",
			errFull, r.N, r.Stats.Bytes, r.Stats.Limit, setting))
	}
	if f, ok := refusals[r.Reason]; ok {
		return f
	}
	return failure("ERR refused: " + r.Reason.String())
}

// undecided says why a command has no result. Programs tell the answers apart by their first word: CLUSTERDOWN may have been done, and must
// not be repeated blindly; all others did nothing.
func undecided(err error) failure {
	switch {
	case errors.Is(err, arbiter.ErrUnreachable):
		return failure("CLUSTERDOWN " + err.Error())
	case errors.Is(err, arbiter.ErrNotDecided):
		return failure("TRYAGAIN " + err.Error())
	case errors.Is(err, arbiter.ErrSeveralOwners):
		return failure("CROSSSLOT " + err.Error())
	case errors.Is(err, arbiter.ErrCannotKeep):
		return failure("MISCONF " + err.Error())
	}
	return failure("ERR " + err.Error())
}

func wrongArity(name string) failure {
	return failure("ERR wrong number of arguments for '" + name + "' command")
}

func invalidExpiry(name string) failure {
	return failure("ERR invalid expire time in '" + name + "' command")
}

// shown is how much of a client's bytes an error repeats.
const shown = 128

// printable returns bytes of a client for an error, shortened.
func printable(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, string(b[:min(len(b), shown)]))
}

// unknownCommand names the command and how its arguments begin, as Redis does.
func unknownCommand(args [][]byte) failure {
	var beginning strings.Builder
	for _, arg := range args[1:] {
		if beginning.Len() >= shown {
			break
		}
		fmt.Fprintf(&beginning, "'%s' ", printable(arg))
	}
	return failure(fmt.Sprintf("ERR unknown command '%s', with args beginning with: %s", printable(args[0]), beginning.String()))
}

func unknownSubcommand(container string, sub []byte) failure {
	return failure(fmt.Sprintf("ERR unknown subcommand '%s'. Try %s HELP.", printable(sub), strings.ToUpper(container)))
}
