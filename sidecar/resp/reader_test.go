package resp

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

var testLimits = readLimits{args: 100, size: 64 << 10}

// readAll feeds bytes in pieces, cut as cut says, and returns the commands and why it ended.
func readAll(in []byte, limits readLimits, cut func(left int) int) (commands [][]string, err error) {
	r := newReader(limits)
	for {
		args, err := r.next()
		switch {
		case errors.Is(err, errIncomplete) && len(in) > 0:
			n := copy(r.room(16), in[:cut(len(in))])
			r.buf = r.buf[:len(r.buf)+n]
			in = in[n:]
		case err != nil:
			return commands, err
		default:
			var words []string
			for _, arg := range args {
				words = append(words, string(arg))
			}
			commands = append(commands, words)
		}
	}
}

func whole(left int) int { return left }

func TestReader(t *testing.T) {
	for _, c := range []struct {
		what, in string
		want     [][]string
		err      string // empty: more could follow
	}{
		{"a command", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", [][]string{{"GET", "k"}}, ""},
		{"two", "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n", [][]string{{"PING"}, {"PING"}}, ""},
		{"an empty argument", "*2\r\n$1\r\na\r\n$0\r\n\r\n", [][]string{{"a", ""}}, ""},
		{"bytes of every kind", "*1\r\n$6\r\n\x00\r\n$*\xff\r\n", [][]string{{"\x00\r\n$*\xff"}}, ""},
		{"empty commands", "*0\r\n*-1\r\n\r\n\n   \r\n*1\r\n$1\r\nx\r\n", [][]string{{"x"}}, ""},
		{"words", "SET k v\r\nget  k \n", [][]string{{"SET", "k", "v"}, {"get", "k"}}, ""},
		{"quoted words", `a "b c" 'd e' "\x41\n\t\\\"" 'it\'s' ""` + "\n", [][]string{{"a", "b c", "d e", "A\n\t\\\"", "it's", ""}}, ""},
		{"a quote that does not end", "a \"b\n", nil, "unbalanced quotes"},
		{"a quote that does not end the word", "a \"b\"c\n", nil, "unbalanced quotes"},
		{"half a command", "*2\r\n$3\r\nGET\r\n$1\r\n", nil, ""},
		{"no number", "*x\r\n", nil, "invalid multibulk length"},
		{"no length", "*1\r\n$x\r\n", nil, "invalid bulk length"},
		{"a negative length", "*1\r\n$-1\r\n", nil, "invalid bulk length"},
		{"no argument", "*1\r\nGET\r\n", nil, "expected '$', got 'G'"},
		{"too many arguments", "*101\r\n", nil, "invalid multibulk length"},
		{"more arguments than can be counted", "*9223372036854775807\r\n", nil, "invalid multibulk length"},
		{"more than that", "*99999999999999999999\r\n", nil, "invalid multibulk length"},
		{"a long argument", "*1\r\n$65537\r\n", nil, "invalid bulk length"},
		{"a long command", "*2\r\n$40000\r\n" + strings.Repeat("x", 40000) + "\r\n$40000\r\n", nil, "too large"},
		{"a long header", "*" + strings.Repeat("1", maxLine), nil, "too big mbulk count"},
		{"a long length", "*1\r\n$" + strings.Repeat("1", maxLine), nil, "too big bulk count"},
		{"a long line", strings.Repeat("x", maxLine), nil, "too big inline request"},
	} {
		t.Run(c.what, func(t *testing.T) {
			for _, cut := range []func(int) int{whole, func(int) int { return 1 }, func(left int) int { return min(left, 7) }} {
				got, err := readAll([]byte(c.in), testLimits, cut)
				if !reflect.DeepEqual(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
				if c.err == "" && !errors.Is(err, errIncomplete) || !strings.Contains(err.Error(), c.err) {
					t.Errorf("it ended with %v, want %q", err, c.err)
				}
			}
		})
	}
}

func TestReaderOfAnUnknownClientTakesLittle(t *testing.T) {
	for in, want := range map[string]string{
		"*11\r\n":          "unauthenticated multibulk length",
		"*1\r\n$16385\r\n": "unauthenticated bulk length",
	} {
		if _, err := readAll([]byte(in), unknownLimits, whole); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
	}
}

// TestReaderDoesNotTrustLengths: a length alone takes no memory, and neither time nor memory follow from a count.
func TestReaderDoesNotTrustLengths(t *testing.T) {
	limits := readLimits{args: 1 << 30, size: 1 << 30}
	for _, in := range []string{"*1000000000\r\n", "*1\r\n$1000000000\r\n", "*1000000000\r\n$1000000000\r\nx"} {
		r := newReader(limits)
		r.buf = append(r.buf, in...)
		before := cap(r.buf)
		for range 100 {
			if _, err := r.next(); !errors.Is(err, errIncomplete) {
				t.Fatalf("%q: %v", in, err)
			}
		}
		if cap(r.buf) != before || cap(r.ends) > 1 {
			t.Errorf("%q took %d bytes and %d arguments", in, cap(r.buf), cap(r.ends))
		}
	}
}

// TestReaderLooksAtEachByteOnce: a large command that arrives in many pieces is not begun anew with each of them.
func TestReaderLooksAtEachByteOnce(t *testing.T) {
	const args = 10_000
	in := []byte(fmt.Sprintf("*%d\r\n%s", args, strings.Repeat("$1\r\nx\r\n", args)))
	r := newReader(readLimits{args: args, size: len(in)})
	for i, b := range in {
		n := copy(r.room(16), []byte{b})
		r.buf = r.buf[:len(r.buf)+n]
		before := len(r.ends)
		got, err := r.next()
		if err == nil {
			if i != len(in)-1 || len(got) != args {
				t.Fatalf("ended at byte %d with %d arguments", i, len(got))
			}
			return
		}
		if len(r.ends) < before || len(r.ends) > before+1 {
			t.Fatalf("at byte %d there are %d arguments after %d", i, len(r.ends), before)
		}
	}
	t.Fatal("it did not end")
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "PING\r\n", "*1\r\n$-1\r\n", "a \"b\\x41\" 'c'\n", "*3\r\n$0\r\n\r\n", "*0\r\n*1\r\n$1\r\nx\r\n",
	} {
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, piece uint8) {
		checkReader(t, in, int(piece)+1)
	})
}

// checkReader reads bytes whole and in pieces, which must give the same, within the limits.
func checkReader(t *testing.T, in []byte, piece int) {
	limits := readLimits{args: 20, size: 1 << 10}
	atOnce, errAtOnce := readAll(bytes.Clone(in), limits, whole)
	inPieces, errInPieces := readAll(bytes.Clone(in), limits, func(left int) int { return min(left, piece) })
	if !reflect.DeepEqual(atOnce, inPieces) || errAtOnce.Error() != errInPieces.Error() {
		t.Fatalf("%q: at once %q (%v), in pieces of %d %q (%v)", in, atOnce, errAtOnce, piece, inPieces, errInPieces)
	}
	for _, command := range atOnce {
		if len(command) == 0 || len(command) > limits.args || len(strings.Join(command, "")) > limits.size {
			t.Fatalf("%q: the command %q is beyond the limits", in, command)
		}
	}
}

// TestReaderOfRandomBytes: a million strings of bytes, most of which begin like the protocol.
func TestReaderOfRandomBytes(t *testing.T) {
	strings, seed := 1_000_000, rand.Uint64()
	if testing.Short() {
		strings = 50_000
	}
	g := rand.New(rand.NewPCG(seed, 0))
	alphabet := []string{"*", "$", "\r\n", "\n", "1", "2", "3", "9", "-", "x", "\"", "'", "\\", " ", "\x00", "\xff", "*2\r\n", "$1\r\nx\r\n", "$3\r\nGET\r\n", "99999999999"}
	var in []byte
	for range strings {
		in = in[:0]
		for range g.IntN(12) {
			in = append(in, alphabet[g.IntN(len(alphabet))]...)
		}
		r := newReader(readLimits{args: 20, size: 1 << 10})
		r.buf = in
		for {
			args, err := r.next()
			if err != nil {
				break
			}
			if len(args) == 0 || len(args) > 20 {
				t.Fatalf("seed %d: %q gave %q", seed, in, args)
			}
		}
		if cap(r.ends) > 64 {
			t.Fatalf("seed %d: %q took room for %d arguments", seed, in, cap(r.ends))
		}
	}
}
