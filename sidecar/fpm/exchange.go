package fpm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
)

const (
	// inlineLimit is how much of a request is sent before its answer is read. A worker takes this
	// much into its socket's buffer even while it writes, so neither side waits for the other.
	inlineLimit = 64 << 10

	// maxResponseHead bounds all header lines of an answer together.
	maxResponseHead = 256 << 10
)

// exchange is one request to php-fpm, from its first byte to the end of its answer.
type exchange struct {
	ctx    context.Context
	dialer *dialer
	conn   *conn
	out    stdout
	head   *bufio.Reader // reads out; its size is the longest header line
	stop   func() bool   // ends the watch over ctx
	sent   chan error    // gets the outcome of sending a large body; nil if there is none
}

// start sends a request and returns when its answer begins. head holds the records up to the end of the
// params; start may append the body to it. reader is reset and used for the answer.
func (f *Front) start(ctx context.Context, head []byte, b *body, reader *bufio.Reader, onStderr func([]byte)) (*exchange, error) {
	c, err := f.dialer.dial(ctx)
	if err != nil {
		return nil, err
	}
	x := &exchange{ctx: ctx, dialer: f.dialer, conn: c, head: reader}
	x.out = stdout{records: c.records, onStderr: onStderr}
	reader.Reset(&x.out)
	x.stop = context.AfterFunc(ctx, func() { c.Conn.Close() })
	if err = x.send(head, b); err == nil {
		_, err = reader.Peek(1)
	}
	if err != nil {
		err = x.explain(err)
		if bodyErr := x.finish(); errors.Is(bodyErr, ErrSpool) {
			err = bodyErr
		}
		return nil, err
	}
	return x, nil
}

// send sends the request; a large body is left to a goroutine.
func (x *exchange) send(head []byte, b *body) error {
	inline := b.file == nil && len(head)+len(b.memory) <= inlineLimit
	if inline {
		head = appendStdinEnd(appendStdin(head, b.memory))
	}
	if _, err := x.conn.Write(head); err != nil {
		return err
	}
	if !inline {
		x.sent = make(chan error, 1)
		go func() { x.sent <- x.sendBody(b.reader()) }()
	}
	return nil
}

// sendBody sends a large body while the answer may already arrive. When it cannot be read, the connection is
// closed, so that the script does not take a part of it for the whole.
func (x *exchange) sendBody(r io.Reader) error {
	buf := make([]byte, 0, recordHeaderLen+32<<10)
	for {
		content := buf[recordHeaderLen:cap(buf)]
		n, err := io.ReadFull(r, content)
		if n > 0 {
			appendRecordHeader(buf, typeStdin, n)
			if _, err := x.conn.Write(buf[:recordHeaderLen+n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			_, err := x.conn.Write(appendStdinEnd(buf))
			return err
		case err != nil:
			x.conn.Conn.Close()
			return fmt.Errorf("%w: %w", ErrSpool, err)
		}
	}
}

// finish ends the exchange, wherever it is. It returns the error of sending a large body, which does not matter to
// the visitor when the script simply did not want all of it.
func (x *exchange) finish() error {
	x.stop()
	x.conn.Conn.Close()
	var err error
	if x.sent != nil {
		err = <-x.sent // the goroutine must be gone before the body is
	}
	x.dialer.close(x.conn)
	return err
}

// explain gives an error of the connection its reason.
func (x *exchange) explain(err error) error {
	switch {
	case x.ctx.Err() != nil:
		return fmt.Errorf("%w before the end of the answer", ErrVisitorGone)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: silent for %s", ErrTimeout, x.dialer.timeout)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: it is empty", ErrMalformed)
	case isReset(err):
		return fmt.Errorf("%w: %w", ErrBrokenOff, err)
	}
	return err
}

// readHead reads the header lines of the answer into h and returns its status.
func (x *exchange) readHead(h http.Header) (status int, err error) {
	for total := 0; ; {
		line, err := x.head.ReadSlice('\n')
		total += len(line)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return 0, fmt.Errorf("%w: %.40q... is longer than %d bytes", ErrHeaderTooLong, headerName(line), x.head.Size())
		case errors.Is(err, io.EOF):
			return 0, fmt.Errorf("%w: it ends within its head", ErrMalformed)
		case err != nil:
			return 0, x.explain(err)
		case total > maxResponseHead:
			return 0, fmt.Errorf("%w: all together are longer than %d bytes", ErrHeaderTooLong, maxResponseHead)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return finalStatus(status, h)
		}
		if status, err = addHeader(h, line, status); err != nil {
			return 0, err
		}
	}
}

// headerName returns the part of a header line that may be logged.
func headerName(line []byte) []byte {
	name, _, _ := bytes.Cut(line, []byte{':'})
	return name
}

// addHeader adds one line to h, or returns the status that it sets.
func addHeader(h http.Header, line []byte, status int) (int, error) {
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok || !isToken(name) {
		return 0, fmt.Errorf("%w: a header line is not of the form name: value", ErrMalformed)
	}
	key := http.CanonicalHeaderKey(string(name))
	text := string(bytes.TrimSpace(value))
	switch key {
	case "Status":
		code, _, _ := bytes.Cut(bytes.TrimSpace(value), []byte{' '})
		n, err := strconv.Atoi(string(code))
		if err != nil || len(code) != 3 || n < 200 || n > 599 {
			return 0, fmt.Errorf("%w: status %.20q is not a final one", ErrMalformed, code)
		}
		return n, nil
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		// These speak about the connection to the visitor, which is not the script's.
	case "Content-Length":
		if n, err := strconv.ParseInt(text, 10, 64); err != nil || n < 0 {
			return 0, fmt.Errorf("%w: content length %.20q", ErrMalformed, text)
		}
		h.Set(key, text)
	default:
		h[key] = append(h[key], text)
	}
	return status, nil
}

// finalStatus returns the status of an answer whose head is complete.
func finalStatus(status int, h http.Header) (int, error) {
	switch {
	case status != 0:
		return status, nil
	case h.Get("Location") != "":
		return http.StatusFound, nil
	}
	return http.StatusOK, nil
}

// isToken reports whether b may be the name of a header.
func isToken(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c >= 0x7f || bytes.IndexByte([]byte(`"(),/:;<=>?@[\]{}`), c) >= 0 {
			return false
		}
	}
	return len(b) > 0
}

// copyBody passes the rest of the answer on. What PHP flushes goes out at once; a short page that is there as a
// whole goes out as one.
func (x *exchange) copyBody(w io.Writer, flush func() error) error {
	for {
		if _, err := x.head.Peek(1); err == io.EOF {
			return nil
		} else if err != nil {
			return x.explain(err)
		}
		piece, _ := x.head.Peek(x.head.Buffered())
		_, err := w.Write(piece)
		x.head.Discard(len(piece))
		switch {
		case errors.Is(err, http.ErrBodyNotAllowed):
			w, err = io.Discard, nil
		case errors.Is(err, http.ErrContentLength):
			return fmt.Errorf("%w: it is longer than its content length", ErrMalformed)
		}
		if err == nil && x.out.wouldBlock() {
			err = flush()
		}
		if err != nil {
			return fmt.Errorf("%w while receiving the answer: %w", ErrVisitorGone, err)
		}
	}
}
