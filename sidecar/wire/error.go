package wire

import "github.com/tinylib/msgp/msgp"

// Code is an error's code, the word by which clients tell failures apart.
type Code string

// The codes. docs/protocol.md says what each means and which PHP exception it becomes.
const (
	Busy        Code = "busy"
	Refused     Code = "refused"
	Unreachable Code = "unreachable"
	TooLarge    Code = "too_large"
	Protocol    Code = "protocol"
	Unavailable Code = "unavailable"
	Internal    Code = "internal"
)

// Codes lists every code.
var Codes = []Code{Busy, Refused, Unreachable, TooLarge, Protocol, Unavailable, Internal}

// Error is a failure as it travels: a code, a sentence for people, and facts for programs.
type Error struct {
	Code    Code
	Message string
	Details Pairs
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Pair is one entry of a map. Value is a string, a []byte, an integer, a bool, nil, a Pairs, or a slice of those.
type Pair struct {
	Key   string
	Value any
}

// Pairs is a map in the order in which it is written.
type Pairs []Pair

// AppendPairs appends p to b as a map.
func AppendPairs(b []byte, p Pairs) []byte {
	b = msgp.AppendMapHeader(b, uint32(len(p)))
	for _, kv := range p {
		b = appendValue(msgp.AppendString(b, kv.Key), kv.Value)
	}
	return b
}

// AppendList appends a list of maps to b.
func AppendList(b []byte, list []Pairs) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(list)))
	for _, p := range list {
		b = AppendPairs(b, p)
	}
	return b
}

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case Pairs:
		return AppendPairs(b, v)
	case []Pairs:
		return AppendList(b, v)
	case [][]byte:
		b = msgp.AppendArrayHeader(b, uint32(len(v)))
		for _, e := range v {
			b = msgp.AppendStringFromBytes(b, e)
		}
		return b
	}
	out, err := msgp.AppendIntf(b, v)
	if err != nil {
		panic("wire: a value that has no form: " + err.Error())
	}
	return out
}
