package fpm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// decode reads a whole answer from r as the front does.
func decode(r io.Reader) (status int, h http.Header, body, stderr string, err error) {
	var bodyOut, errOut bytes.Buffer
	x := &exchange{ctx: context.Background()}
	x.out = stdout{
		records:  bufio.NewReaderSize(r, readBufferLen),
		onStderr: func(p []byte) { errOut.Write(p) },
	}
	x.head = bufio.NewReaderSize(&x.out, 1024)
	h = http.Header{}
	status, err = x.readHead(h)
	if err == nil {
		err = x.copyBody(&bodyOut, func() error { return nil })
	}
	return status, h, bodyOut.String(), errOut.String(), err
}

func TestAnswerIsTakenOutOfItsRecords(t *testing.T) {
	raw := rec(7, "warn") + rec(6, "Status: 404 Not Found\r\nSet-Cookie: a=1\r\nset-co") + rec(7, "ing\n") +
		rec(6, "okie: b=2\r\n\r\nhel") + rec(6, "lo") + rec(6, "") + endOK
	for name, r := range map[string]io.Reader{
		"whole":         strings.NewReader(raw),
		"byte-wise":     iotest.OneByteReader(strings.NewReader(raw)),
		"data-with-EOF": iotest.DataErrReader(strings.NewReader(raw)),
	} {
		status, h, body, stderr, err := decode(r)
		if err != nil || status != 404 || body != "hello" || stderr != "warning\n" || strings.Join(h["Set-Cookie"], ",") != "a=1,b=2" {
			t.Errorf("%s: got %d %v %q stderr %q, %v", name, status, h, body, stderr, err)
		}
	}
}

func TestBadAnswersAreToldApart(t *testing.T) {
	const head = "Content-Type: text/plain\r\n\r\n"
	tests := []struct {
		name, raw string
		want      error
	}{
		{"nothing", "", ErrBrokenOff},
		{"half a record header", "\x01\x06", ErrBrokenOff},
		{"half a body", rec(6, head)[:20], ErrBrokenOff},
		{"no end of request", rec(6, head+"hello"), ErrBrokenOff},
		{"half an end of request", rec(6, head) + endOK[:12], ErrBrokenOff},
		{"half of stderr", rec(7, strings.Repeat("x", 99))[:50], ErrBrokenOff},
		{"another version", "\x02" + rec(6, head)[1:], ErrMalformed},
		{"another request's id", strings.Replace(rec(6, head), "\x06\x00\x01", "\x06\x00\x02", 1), ErrMalformed},
		{"a record that only clients send", rec(4, "x"), ErrMalformed},
		{"an end of request of four bytes", rec(3, "\x00\x00\x00\x00"), ErrMalformed},
		{"overloaded", rec(3, "\x00\x00\x00\x00\x02\x00\x00\x00"), ErrBusy},
		{"cannot multiplex", rec(3, "\x00\x00\x00\x00\x01\x00\x00\x00"), ErrMalformed},
		{"empty", endOK, ErrMalformed},
		{"no end of head", rec(6, "Content-Type: text/plain\r\n") + endOK, ErrMalformed},
		{"a line without a colon", rec(6, "hello\r\n\r\n") + endOK, ErrMalformed},
		{"a space in a name", rec(6, "X Y: z\r\n\r\n") + endOK, ErrMalformed},
		{"an informational status", rec(6, "Status: 103 Early Hints\r\n\r\n") + endOK, ErrMalformed},
		{"a status of four digits", rec(6, "Status: 2000\r\n\r\n") + endOK, ErrMalformed},
		{"a signed status", rec(6, "Status: +20\r\n\r\n") + endOK, ErrMalformed},
		{"a negative content length", rec(6, "Content-Length: -1\r\n\r\n") + endOK, ErrMalformed},
		{"a line too long", rec(6, "X: "+strings.Repeat("y", 1024)+"\r\n\r\n") + endOK, ErrHeaderTooLong},
		{"too many lines", strings.Repeat(rec(6, "X: "+strings.Repeat("y", 900)+"\r\n"), 300) + endOK, ErrHeaderTooLong},
	}
	for _, tt := range tests {
		if _, _, _, _, err := decode(strings.NewReader(tt.raw)); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestHopByHopHeadersStayBehind(t *testing.T) {
	_, h, _, _, err := decode(strings.NewReader(rec(6, "Connection: close\r\nTransfer-Encoding: chunked\r\nUpgrade: h2c\r\nX-A: b\r\n\r\n") + endOK))
	if err != nil || len(h) != 1 || h.Get("X-A") != "b" {
		t.Errorf("got %v, %v; want X-A alone", h, err)
	}
}

func TestRequestRecordsStayWithinTheirLimit(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 20_000)
	r, err := readFakeRequest(bytes.NewReader(appendStdinEnd(appendStdin(nil, content))))
	if err != nil || !bytes.Equal(r.stdin, content) {
		t.Errorf("200,000 bytes came back as %d, %v", len(r.stdin), err)
	}
	long := strings.Repeat("v", 300)
	b := appendParam(appendParam(nil, "SHORT", "1"), long, long)
	params := map[string]string{}
	readFakeParams(params, b)
	if params["SHORT"] != "1" || params[long] != long {
		t.Errorf("params came back as %v", params)
	}
}

// FuzzAnswer feeds any bytes to the decoder: it must come to an end, must not make up bytes, must say the same
// however the bytes are cut into reads, and may call an answer whole only if its last record says so.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(page200("hello")))
	f.Add([]byte(rec(7, "warning\n") + rec(6, "Status: 302\r\nLocation: /x\r\n\r\n") + endOK))
	f.Add([]byte(rec(6, "X: y\r\n\r\n") + rec(3, "\x00\x00\x00\x00\x02\x00\x00\x00")))
	f.Add([]byte("\x01\x06\x00\x01\xff\xff\xff\x00short"))
	f.Add([]byte(rec(6, strings.Repeat("a", 2000))))
	f.Fuzz(func(t *testing.T, raw []byte) {
		status, h, body, stderr, err := decode(bytes.NewReader(raw))
		status2, _, body2, stderr2, err2 := decode(iotest.OneByteReader(bytes.NewReader(raw)))
		if status != status2 || body != body2 || stderr != stderr2 || (err == nil) != (err2 == nil) {
			t.Fatalf("whole: %d %q %v; byte by byte: %d %q %v", status, body, err, status2, body2, err2)
		}
		if len(body)+len(stderr) > len(raw) {
			t.Fatalf("%d bytes became %d", len(raw), len(body)+len(stderr))
		}
		if err == nil && (status < 200 || status > 599 || !bytes.Contains(raw, []byte{1, typeEndRequest, 0, 1, 0, 8})) {
			t.Fatalf("status %d, head %v: called whole", status, h)
		}
		if err != nil && !errors.Is(err, ErrBrokenOff) && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrHeaderTooLong) {
			t.Fatalf("error without a sentinel: %v", err)
		}
	})
}
