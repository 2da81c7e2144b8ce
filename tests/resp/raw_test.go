package resp

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// raw is a client that shows replies as they are on the wire, in words.
type raw struct {
	t  *testing.T
	nc net.Conn
	r  *bufio.Reader
}

func dial(t *testing.T, socket string) *raw {
	t.Helper()
	nc, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return &raw{t: t, nc: nc, r: bufio.NewReader(nc)}
}

// encode writes a command as clients do.
func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

// send sends bytes.
func (c *raw) send(bytes string) {
	c.t.Helper()
	c.nc.SetDeadline(time.Now().Add(limit))
	if _, err := io.WriteString(c.nc, bytes); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// do sends a command and returns its reply.
func (c *raw) do(args ...string) reply {
	c.t.Helper()
	c.send(encode(args...))
	return c.reply()
}

// line sends a command of words without blanks.
func (c *raw) line(command string) reply {
	c.t.Helper()
	return c.do(strings.Fields(command)...)
}

func (c *raw) reply() reply {
	c.t.Helper()
	r, err := c.read()
	if err != nil {
		c.t.Fatalf("read a reply: %v", err)
	}
	return r
}

// reply is a reply: its kind on the wire, its text, or its elements.
type reply struct {
	kind     byte
	text     string
	null     bool
	elements []reply
}

// String shows a reply so that two that are the same to a client look the same.
func (r reply) String() string {
	switch {
	case r.null:
		return string(r.kind) + "null"
	case strings.IndexByte("*%~", r.kind) >= 0:
		words := make([]string, len(r.elements))
		for i, e := range r.elements {
			words[i] = e.String()
		}
		return fmt.Sprintf("%c[%s]", r.kind, strings.Join(words, " "))
	case r.kind == '$':
		return strconv.Quote(r.text)
	}
	return string(r.kind) + r.text
}

// sorted returns the reply with its elements in order, the pairs of a map kept together.
func (r reply) sorted(pairs bool) reply {
	step := 1
	if pairs {
		step = 2
	}
	var groups [][]reply
	for group := range slices.Chunk(r.elements, step) {
		groups = append(groups, group)
	}
	slices.SortFunc(groups, func(a, b []reply) int { return strings.Compare(a[0].String(), b[0].String()) })
	r.elements = slices.Concat(groups...)
	return r
}

func (r reply) isError() bool { return r.kind == '-' }

func (r reply) number() int64 {
	n, err := strconv.ParseInt(r.text, 10, 64)
	if err != nil {
		return -99
	}
	return n
}

func (c *raw) read() (reply, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return reply{}, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	r := reply{kind: line[0], text: line[1:]}
	switch r.kind {
	case '+', '-', ':', ',', '#':
		return r, nil
	case '_':
		r.null = true
		return r, nil
	}
	n, err := strconv.Atoi(r.text)
	if err != nil {
		return r, fmt.Errorf("reply %q: %w", line, err)
	}
	switch {
	case n < 0:
		r.null = true
		return r, nil
	case r.kind == '$' || r.kind == '=':
		body := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, body); err != nil {
			return r, err
		}
		r.text = string(body[:n])
		return r, nil
	case r.kind == '%':
		n *= 2
	}
	for range n {
		e, err := c.read()
		if err != nil {
			return r, err
		}
		r.elements = append(r.elements, e)
	}
	return r, nil
}
