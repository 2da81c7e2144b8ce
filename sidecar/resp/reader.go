package resp

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"
)

// errIncomplete is returned when the bytes that are there do not end the command.
var errIncomplete = errors.New("the command is not complete")

// protocolError says why bytes are not the Redis protocol, in Redis' words.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

// maxLine is the length of the longest line: a header, or a command without headers.
const maxLine = 64 << 10

// readLimits bounds what a client may send.
type readLimits struct {
	args int // of one command
	size int // of one command, in bytes, headers included
}

// unknownLimits are the limits of a client that has not authenticated, as in Redis.
var unknownLimits = readLimits{args: 10, size: 16 << 10}

// reader finds commands in bytes. It remembers how far it came, so that a command that arrives in many
// pieces is looked at once. It allocates for arguments that have arrived only.
type reader struct {
	limits readLimits
	buf    []byte // what has arrived; the command begins at start
	start  int
	pos    int      // up to where the command is parsed
	wanted int      // arguments that are still to come
	bulk   int      // length of the argument that comes now, -1: its header is next
	ends   []span   // the arguments so far, relative to start
	args   [][]byte // made of ends when the command is complete
}

type span struct{ from, to int }

func newReader(limits readLimits) reader { return reader{limits: limits, bulk: -1} }

// next returns the next command's arguments, at least one. They are valid until the buffer is filled again.
func (r *reader) next() ([][]byte, error) {
	for {
		if r.pos == r.start {
			if err := r.begin(); err != nil {
				return nil, err
			}
		}
		for r.wanted > 0 {
			if err := r.argument(); err != nil {
				return nil, err
			}
		}
		if len(r.ends) > 0 {
			return r.finish(), nil
		}
		r.start = r.pos // an empty command
	}
}

// begin reads how many arguments a command has. A line that says nothing of the kind is a command itself.
func (r *reader) begin() error {
	if r.start == len(r.buf) {
		return errIncomplete
	}
	if r.buf[r.start] != '*' {
		return r.inline()
	}
	n, err := r.header("multibulk length", "too big mbulk count string")
	if err != nil {
		return err
	}
	if n > r.limits.args {
		return r.tooMany("multibulk length")
	}
	r.wanted = max(n, 0)
	return nil
}

// tooMany says that a length is not allowed, in the words that Redis has for clients before and after AUTH.
func (r *reader) tooMany(what string) error {
	if r.limits == unknownLimits {
		return protocolError("unauthenticated " + what)
	}
	return protocolError("invalid " + what)
}

// argument reads one argument, its header included.
func (r *reader) argument() error {
	if r.bulk < 0 {
		if r.pos == len(r.buf) {
			return errIncomplete
		}
		if c := r.buf[r.pos]; c != '$' {
			return protocolError(fmt.Sprintf("expected '$', got '%c'", c))
		}
		n, err := r.header("bulk length", "too big bulk count string")
		if err != nil {
			return err
		}
		if n < 0 || n > r.limits.size {
			return r.tooMany("bulk length")
		}
		r.bulk = n
	}
	if r.pos-r.start+r.bulk > r.limits.size {
		return protocolError("the command is too large")
	}
	end := r.pos + r.bulk + 2
	if end > len(r.buf) {
		return errIncomplete
	}
	r.ends = append(r.ends, span{r.pos - r.start, r.pos - r.start + r.bulk})
	r.pos, r.bulk = end, -1
	r.wanted--
	return nil
}

// header reads the number in the line at pos, behind its first byte.
func (r *reader) header(what, tooLong string) (int, error) {
	line, err := r.line(tooLong)
	if err != nil {
		return 0, err
	}
	n, ok := parseInt(bytes.TrimSuffix(line[1:], []byte{'\r'}))
	if !ok || n > 1<<31-1 {
		return 0, protocolError("invalid " + what)
	}
	r.pos += len(line) + 1
	return int(max(n, -1)), nil
}

// line returns the line at pos without its newline.
func (r *reader) line(tooLong string) ([]byte, error) {
	rest := r.buf[r.pos:]
	end := bytes.IndexByte(rest[:min(len(rest), maxLine)], '\n')
	switch {
	case end >= 0:
		return rest[:end], nil
	case len(rest) >= maxLine:
		return nil, protocolError(tooLong)
	}
	return nil, errIncomplete
}

// finish returns the command's arguments and goes on behind it.
func (r *reader) finish() [][]byte {
	r.args = r.args[:0]
	for _, s := range r.ends {
		r.args = append(r.args, r.buf[r.start+s.from:r.start+s.to:r.start+s.to])
	}
	r.ends = r.ends[:0]
	r.start = r.pos
	return r.args
}

// inline reads a command that is a line of words, as people type them.
func (r *reader) inline() error {
	line, err := r.line("too big inline request")
	if err != nil {
		return err
	}
	if len(line) > r.limits.size {
		return r.tooMany("bulk length")
	}
	from := r.pos - r.start
	r.pos += len(line) + 1
	words, ok := splitWords(line, from)
	if !ok {
		return protocolError("unbalanced quotes in request")
	}
	if len(words) > r.limits.args {
		return r.tooMany("multibulk length")
	}
	r.ends = append(r.ends, words...)
	return nil
}

// splitWords returns where the words of a line are. Quoted words are unquoted in place, which only makes them shorter.
func splitWords(line []byte, from int) (words []span, ok bool) {
	for i := 0; i < len(line); {
		if isSpace(line[i]) {
			i++
			continue
		}
		length, used, ok := unquote(line[i:])
		if !ok {
			return nil, false
		}
		words = append(words, span{from + i, from + i + length})
		i += used
	}
	return words, true
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }

// unquote rewrites the word at the front of b without its quotes and returns its length and the bytes that it took.
func unquote(b []byte) (length, used int, ok bool) {
	out, i := 0, 0
	put := func(c byte) { b[out] = c; out++ }
	for i < len(b) && !isSpace(b[i]) {
		quote := b[i]
		if quote != '"' && quote != '\'' {
			put(quote)
			i++
			continue
		}
		for i++; ; {
			if i >= len(b) {
				return 0, 0, false
			}
			if b[i] == quote {
				i++
				break
			}
			c, n := unescape(b[i:], quote)
			put(c)
			i += n
		}
		if i < len(b) && !isSpace(b[i]) {
			return 0, 0, false // a closing quote must end the word
		}
	}
	return out, i, true
}

// escapes are the characters that a backslash makes of letters, in double quotes.
var escapes = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'b': '\b', 'a': '\a'}

// unescape returns the character at the front of b, inside quotes, and the bytes that it took.
func unescape(b []byte, quote byte) (c byte, used int) {
	if b[0] != '\\' || len(b) < 2 {
		return b[0], 1
	}
	if quote == '\'' {
		if b[1] == '\'' {
			return '\'', 2
		}
		return b[0], 1
	}
	if b[1] == 'x' && len(b) >= 4 {
		high, low := hexDigit(b[2]), hexDigit(b[3])
		if high >= 0 && low >= 0 {
			return byte(high<<4 | low), 4
		}
	}
	if e, ok := escapes[b[1]]; ok {
		return e, 2
	}
	return b[1], 2
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// pending says whether a command has begun to arrive.
func (r *reader) pending() bool { return r.start < len(r.buf) }

// room makes room for n more bytes, moving the unfinished command to the front, and returns it. The buffer grows to twice what is
// there at most.
func (r *reader) room(least int) []byte {
	if r.start > 0 {
		n := copy(r.buf, r.buf[r.start:])
		r.buf = r.buf[:n]
		r.pos -= r.start
		r.start = 0
	}
	if cap(r.buf)-len(r.buf) == 0 {
		grown := make([]byte, len(r.buf), max(2*len(r.buf), least))
		copy(grown, r.buf)
		r.buf = grown
	}
	return r.buf[len(r.buf):cap(r.buf)]
}

// keptArguments is how many arguments a connection keeps room for between commands.
const keptArguments = 256

// forget lets go of the arguments that next returned last.
func (r *reader) forget() {
	if cap(r.args) > keptArguments {
		r.args = nil
	}
	clear(r.args[:cap(r.args)])
	if len(r.ends) == 0 && cap(r.ends) > keptArguments {
		r.ends = nil
	}
}

// extra returns what the arguments take beside the buffer, beyond what a connection keeps room for: short ones take more than
// their bytes.
func (r *reader) extra() int {
	const span, arg = int(unsafe.Sizeof(span{})), int(unsafe.Sizeof([]byte{}))
	return max(0, cap(r.ends)-keptArguments)*span + max(0, cap(r.args)-keptArguments)*arg
}

// shrink gives a buffer above limit back when nothing is in it.
func (r *reader) shrink(limit int) {
	if !r.pending() && cap(r.buf) > limit {
		r.buf, r.start, r.pos = nil, 0, 0
	}
}
