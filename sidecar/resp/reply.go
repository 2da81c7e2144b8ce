package resp

import (
	"strconv"

	"github.com/tidwall/redcon"
)

// writer builds replies in the client's version of the protocol.
type writer struct {
	out   []byte
	resp3 bool
	class string // of the last error that was written: its first word
}

func (w *writer) ok()               { w.out = append(w.out, "+OK\r\n"...) }
func (w *writer) simple(s string)   { w.out = redcon.AppendString(w.out, s) }
func (w *writer) int(n int64)       { w.out = redcon.AppendInt(w.out, n) }
func (w *writer) bulk(b []byte)     { w.out = redcon.AppendBulk(w.out, b) }
func (w *writer) bulkText(s string) { w.out = redcon.AppendBulkString(w.out, s) }
func (w *writer) array(n int)       { w.out = redcon.AppendArray(w.out, n) }
func (w *writer) bulkOrNull(b []byte, found bool) {
	if !found {
		w.null()
		return
	}
	w.bulk(b)
}

// flag answers 1 or 0.
func (w *writer) flag(b bool) {
	if b {
		w.out = append(w.out, ":1\r\n"...)
		return
	}
	w.out = append(w.out, ":0\r\n"...)
}

func (w *writer) null() {
	if w.resp3 {
		w.out = append(w.out, "_\r\n"...)
		return
	}
	w.out = append(w.out, "$-1\r\n"...)
}

// mapping begins a map of n pairs: in RESP2 an array of twice as many elements.
func (w *writer) mapping(n int) {
	if !w.resp3 {
		w.array(2 * n)
		return
	}
	w.header('%', n)
}

// set begins a set of n elements: in RESP2 an array.
func (w *writer) set(n int) {
	if !w.resp3 {
		w.array(n)
		return
	}
	w.header('~', n)
}

func (w *writer) header(kind byte, n int) {
	w.out = strconv.AppendInt(append(w.out, kind), int64(n), 10)
	w.out = append(w.out, "\r\n"...)
}

// text answers a text for people: in RESP2 a string like any other.
func (w *writer) text(s string) {
	if !w.resp3 {
		w.bulkText(s)
		return
	}
	w.bulkTextOf('=', "txt:"+s)
}

func (w *writer) bulkTextOf(kind byte, s string) {
	w.header(kind, len(s))
	w.out = append(append(w.out, s...), "\r\n"...)
}

// fail answers an error.
func (w *writer) fail(f failure) {
	w.out = redcon.AppendError(w.out, string(f))
	w.class = f.class()
}
