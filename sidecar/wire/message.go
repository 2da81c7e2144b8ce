package wire

import (
	"errors"
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// The first element of a message.
const (
	typeRequest      = 0
	typeResponse     = 1
	typeNotification = 2
)

// Request is a decoded request or notification. It points into its frame.
type Request struct {
	ID           uint32
	Notification bool // wants no answer
	Method       Method
	Params       Params
}

// ErrMalformed is returned for bytes that are not a message. The connection they came from is of no more use.
var ErrMalformed = errors.New("not a request")

// protocolError makes an *Error of code Protocol.
func protocolError(format string, args ...any) *Error {
	return &Error{Code: Protocol, Message: fmt.Errorf(format, args...).Error()}
}

// Decode reads the message in frame into r, whose slices it uses again. It returns an error that
// wraps ErrMalformed when frame is no request, and an *Error when it is one that must be refused:
// then r's ID and Notification are right.
func (r *Request) Decode(frame []byte) error {
	r.Method = Unknown
	n, b, err := msgp.ReadArrayHeaderBytes(frame)
	if err != nil {
		return fmt.Errorf("%w: not an array", ErrMalformed)
	}
	kind, b, err := msgp.ReadUint8Bytes(b)
	switch {
	case err == nil && kind == typeRequest && n == 4:
		r.Notification = false
		if r.ID, b, err = msgp.ReadUint32Bytes(b); err != nil {
			return fmt.Errorf("%w: the id is not a 32-bit integer", ErrMalformed)
		}
	case err == nil && kind == typeNotification && n == 3:
		r.Notification, r.ID = true, 0
	default:
		return fmt.Errorf("%w: neither request nor notification", ErrMalformed)
	}
	name, b, err := msgp.ReadStringZC(b)
	if err != nil {
		return fmt.Errorf("%w: the method is not a string", ErrMalformed)
	}
	method, ok := methodByName[string(name)]
	if !ok {
		return protocolError("there is no method %q", cut(name, maxWord))
	}
	r.Method = method
	b, err = r.Params.decode(method, b)
	if err == nil && len(b) > 0 {
		err = protocolError("%s: %d bytes follow the message in its frame", method, len(b))
	}
	return err
}

// BeginResponse appends the frame of an answer to request id up to its result. The caller appends
// the result and calls EndResponse with the length that b had before.
func BeginResponse(b []byte, id uint32) []byte {
	b = append(begin(b), 0x94, typeResponse)
	b = msgp.AppendUint32(b, id)
	return msgp.AppendNil(b)
}

// EndResponse completes the frame that begins at start.
func EndResponse(b []byte, start int) []byte { return end(b, start) }

// AppendError appends the frame of a failed request's answer.
func AppendError(b []byte, id uint32, e *Error) []byte {
	start := len(b)
	b = append(begin(b), 0x94, typeResponse)
	b = msgp.AppendUint32(b, id)
	b = msgp.AppendArrayHeader(b, 3)
	b = msgp.AppendString(b, string(e.Code))
	b = msgp.AppendString(b, e.Message)
	b = AppendPairs(b, e.Details)
	return end(msgp.AppendNil(b), start)
}

// AppendRequest appends the frame of a request, for clients.
func AppendRequest(b []byte, id uint32, method string, params Pairs) []byte {
	start := len(b)
	b = append(begin(b), 0x94, typeRequest)
	b = msgp.AppendUint32(b, id)
	b = msgp.AppendString(b, method)
	return end(AppendPairs(b, params), start)
}

// DecodeResponse reads an answer, for clients: its request's id and its result, made of nil, bool,
// int64, uint64, string, []byte, []any and map[string]any. A failed request's answer is returned
// as *Error with its Details in no particular order.
func DecodeResponse(frame []byte) (id uint32, result any, err error) {
	n, b, err := msgp.ReadArrayHeaderBytes(frame)
	if err != nil || n != 4 {
		return 0, nil, fmt.Errorf("%w: not an array of four", ErrMalformed)
	}
	kind, b, err := msgp.ReadUint8Bytes(b)
	if err != nil || kind != typeResponse {
		return 0, nil, fmt.Errorf("%w: not a response", ErrMalformed)
	}
	if id, b, err = msgp.ReadUint32Bytes(b); err != nil {
		return 0, nil, fmt.Errorf("%w: the id is not a 32-bit integer", ErrMalformed)
	}
	failure, b, err := msgp.ReadIntfBytes(b)
	if err != nil {
		return id, nil, fmt.Errorf("%w: the error: %w", ErrMalformed, err)
	}
	if failure != nil {
		return id, nil, asError(failure)
	}
	result, _, err = msgp.ReadIntfBytes(b)
	if err != nil {
		return id, nil, fmt.Errorf("%w: the result: %w", ErrMalformed, err)
	}
	return id, result, nil
}

// asError turns the three parts of a failure into an *Error.
func asError(v any) error {
	parts, _ := v.([]any)
	if len(parts) != 3 {
		return fmt.Errorf("%w: the error has not three parts", ErrMalformed)
	}
	code, _ := parts[0].(string)
	message, _ := parts[1].(string)
	details, _ := parts[2].(map[string]any)
	e := &Error{Code: Code(code), Message: message}
	for key, value := range details {
		e.Details = append(e.Details, Pair{key, value})
	}
	return e
}
