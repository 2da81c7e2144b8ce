package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tinylib/msgp/msgp"
)

// vector is one request and its answer, byte by byte, as the C and PHP tests read them too.
type vector struct {
	Name    string
	Request struct {
		Method string
		Params map[string]any
	}
	RequestHex  string `json:"request_hex"`
	ResponseHex string `json:"response_hex"`
	Result      any
	Error       any // code, message and details, in place of Result
}

// plain turns {"$hex": "..."} into bytes, everywhere in a value.
func plain(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		if text, ok := v["$hex"].(string); ok && len(v) == 1 {
			return unhex(t, text)
		}
		for key := range v {
			v[key] = plain(t, v[key])
		}
	case []any:
		for i := range v {
			v[i] = plain(t, v[i])
		}
	}
	return v
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return b
}

// show writes a value so that numbers of any type, and text and bytes, compare.
func show(v any) string {
	switch v := v.(type) {
	case []byte:
		return fmt.Sprintf("%q", v)
	case string:
		return fmt.Sprintf("%q", v)
	case []any:
		s := "["
		for i := range v {
			s += show(v[i]) + " "
		}
		return s + "]"
	case map[string]any:
		shown := map[string]string{}
		for key := range v {
			shown[key] = show(v[key])
		}
		return fmt.Sprint(shown)
	}
	return fmt.Sprint(v)
}

// body returns the only frame in b.
func body(t *testing.T, b []byte) []byte {
	t.Helper()
	frame, rest, err := Next(b, DefaultMaxFrame)
	if err != nil || len(rest) > 0 {
		t.Fatalf("not one frame: %v, %d bytes left", err, len(rest))
	}
	return frame
}

func TestVectors(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "tests", "vectors", "messages.json"))
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var vectors []vector
	if err := d.Decode(&vectors); err != nil || len(vectors) == 0 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			if v.RequestHex != "" {
				v.checkRequest(t)
			}
			if v.ResponseHex != "" {
				v.checkResponse(t)
			}
		})
	}
}

func (v *vector) checkRequest(t *testing.T) {
	frame := body(t, unhex(t, v.RequestHex))
	var r Request
	err := r.Decode(frame)
	if failure, ok := v.Error.([]any); ok && failure[0] == string(Protocol) {
		var e *Error
		if !errors.As(err, &e) || e.Code != Protocol {
			t.Errorf("the request is to be refused: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatalf("the request: %v", err)
	}
	if r.Method.String() != v.Request.Method {
		t.Errorf("the method is %s, want %s", r.Method, v.Request.Method)
	}
	for name, want := range v.Request.Params {
		p, known := paramByName[name]
		if want = plain(t, want); !known || r.Params.given.has(p) == (want == nil) {
			t.Errorf("%s: known %v, given %v", name, known, r.Params.given.has(p))
			continue
		}
		if got := r.Params.value(p); want != nil && show(got) != show(want) {
			t.Errorf("%s is %s, want %s", name, show(got), show(want))
		}
	}
}

// value returns a parameter as the vectors write it.
func (p *Params) value(which param) any {
	switch f := &fields[which]; {
	case f.bytes != nil:
		return *f.bytes(p)
	case f.list != nil:
		var list []any
		for _, b := range *f.list(p) {
			list = append(list, b)
		}
		return list
	case f.number != nil:
		return *f.number(p)
	default:
		return *f.flag(p)
	}
}

func (v *vector) checkResponse(t *testing.T) {
	frame := body(t, unhex(t, v.ResponseHex))
	_, got, err := DecodeResponse(frame)
	var e *Error
	if errors.As(err, &e) {
		_, rest, _ := msgp.ReadArrayHeaderBytes(frame) // the error as it stands there, third of four
		for range 2 {
			if rest, err = msgp.Skip(rest); err != nil {
				t.Fatal(err)
			}
		}
		if got, _, err = msgp.ReadIntfBytes(rest); err != nil {
			t.Fatal(err)
		}
	} else if err != nil {
		t.Fatalf("the response: %v", err)
	}
	want := plain(t, v.Result)
	if e != nil {
		want = plain(t, v.Error)
	}
	if show(got) != show(want) {
		t.Errorf("the result is %s, want %s", show(got), show(want))
	}
}
