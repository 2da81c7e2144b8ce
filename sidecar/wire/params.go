package wire

import (
	"fmt"
	"slices"

	"github.com/tinylib/msgp/msgp"
)

// Params holds a request's parameters. Those that were not given are zero; Has tells them from zeros that were.
// Byte slices point into the frame.
type Params struct {
	given set

	Key    []byte   // key, id, name or address
	Keys   [][]byte // at most MaxKeys
	Bucket []byte
	Prefix []byte // of keys or names; in session.* the keyspace
	Token  []byte
	Value  []byte // value or data
	IfEq   []byte
	Policy []byte
	Script []byte
	Client []byte
	SAPI   []byte

	Missing []byte // create or fail

	Lease, Wait, TTL, Timeout int64 // milliseconds

	Fence, Version, Cursor                                     int64
	Delta, Floor, Count, Limit, PID                            int64
	NX, XX, KeepTTL, Get, Bound, Shared, Touch, Release, Force bool
}

const (
	// MaxKeys is the largest number of keys in one request.
	MaxKeys = 16_384
	// MaxKey is the length of the longest key or lock name.
	MaxKey = 65_535
	// maxWord is the length of the longest token, bucket, or client's name.
	maxWord = 255
)

// param names a parameter in a set.
type param uint8

const (
	pID param = iota
	pName
	pKey
	pKeys
	pBucket
	pPrefix
	pToken
	pData
	pValue
	pIfEq
	pPolicy
	pScript
	pClient
	pSAPI
	pMissing
	pLease
	pWait
	pTTL
	pTimeout
	pFence
	pVersion
	pCursor
	pDelta
	pFloor
	pCount
	pLimit
	pPID
	pNX
	pXX
	pKeepTTL
	pGet
	pBound
	pShared
	pTouch
	pRelease
	pAddress
	pForce
	paramCount
)

// set is a set of parameters.
type set uint64

func params(list ...param) (s set) {
	for _, p := range list {
		s |= 1 << p
	}
	return s
}

func (s set) has(p param) bool { return s>>p&1 == 1 }

// field is a parameter's name, its place in Params, and its range. One of bytes, list, number and flag is set.
type field struct {
	name   string
	bytes  func(*Params) *[]byte
	list   func(*Params) *[][]byte
	number func(*Params) *int64
	flag   func(*Params) *bool
	min    int64 // least number, or least length
	max    int   // greatest length; 0: the frame's
}

const anyNumber = -1 << 63

// fields is the table of parameters.
var fields = [paramCount]field{
	pID:      {name: "id", bytes: func(p *Params) *[]byte { return &p.Key }, max: MaxKey},
	pName:    {name: "name", bytes: func(p *Params) *[]byte { return &p.Key }, min: 1, max: MaxKey},
	pKey:     {name: "key", bytes: func(p *Params) *[]byte { return &p.Key }, min: 1, max: MaxKey},
	pKeys:    {name: "keys", list: func(p *Params) *[][]byte { return &p.Keys }, min: 1, max: MaxKey},
	pBucket:  {name: "bucket", bytes: func(p *Params) *[]byte { return &p.Bucket }, max: maxWord},
	pPrefix:  {name: "prefix", bytes: func(p *Params) *[]byte { return &p.Prefix }, max: MaxKey},
	pToken:   {name: "token", bytes: func(p *Params) *[]byte { return &p.Token }, min: 1, max: maxWord},
	pData:    {name: "data", bytes: func(p *Params) *[]byte { return &p.Value }},
	pValue:   {name: "value", bytes: func(p *Params) *[]byte { return &p.Value }},
	pIfEq:    {name: "ifeq", bytes: func(p *Params) *[]byte { return &p.IfEq }},
	pPolicy:  {name: "policy", bytes: func(p *Params) *[]byte { return &p.Policy }, max: maxWord},
	pScript:  {name: "script", bytes: func(p *Params) *[]byte { return &p.Script }},
	pClient:  {name: "client", bytes: func(p *Params) *[]byte { return &p.Client }, max: maxWord},
	pSAPI:    {name: "sapi", bytes: func(p *Params) *[]byte { return &p.SAPI }, max: maxWord},
	pMissing: {name: "missing", bytes: func(p *Params) *[]byte { return &p.Missing }, max: maxWord},
	pLease:   {name: "lease_ms", number: func(p *Params) *int64 { return &p.Lease }},
	pWait:    {name: "wait_ms", number: func(p *Params) *int64 { return &p.Wait }},
	pTTL:     {name: "ttl_ms", number: func(p *Params) *int64 { return &p.TTL }, min: anyNumber},
	pTimeout: {name: "timeout_ms", number: func(p *Params) *int64 { return &p.Timeout }},
	pFence:   {name: "fence", number: func(p *Params) *int64 { return &p.Fence }},
	pVersion: {name: "version", number: func(p *Params) *int64 { return &p.Version }},
	pCursor:  {name: "cursor", number: func(p *Params) *int64 { return &p.Cursor }},
	pDelta:   {name: "delta", number: func(p *Params) *int64 { return &p.Delta }, min: anyNumber},
	pFloor:   {name: "floor", number: func(p *Params) *int64 { return &p.Floor }, min: anyNumber},
	pCount:   {name: "count", number: func(p *Params) *int64 { return &p.Count }, min: 1},
	pLimit:   {name: "limit", number: func(p *Params) *int64 { return &p.Limit }, min: 1},
	pPID:     {name: "pid", number: func(p *Params) *int64 { return &p.PID }},
	pNX:      {name: "nx", flag: func(p *Params) *bool { return &p.NX }},
	pXX:      {name: "xx", flag: func(p *Params) *bool { return &p.XX }},
	pKeepTTL: {name: "keepttl", flag: func(p *Params) *bool { return &p.KeepTTL }},
	pGet:     {name: "get", flag: func(p *Params) *bool { return &p.Get }},
	pBound:   {name: "bound", flag: func(p *Params) *bool { return &p.Bound }},
	pShared:  {name: "shared", flag: func(p *Params) *bool { return &p.Shared }},
	pTouch:   {name: "touch", flag: func(p *Params) *bool { return &p.Touch }},
	pRelease: {name: "release", flag: func(p *Params) *bool { return &p.Release }},
	pAddress: {name: "address", bytes: func(p *Params) *[]byte { return &p.Key }, min: 1, max: maxWord},
	pForce:   {name: "force", flag: func(p *Params) *bool { return &p.Force }},
}

var paramByName = func() map[string]param {
	m := make(map[string]param, paramCount)
	for i := range fields {
		m[fields[i].name] = param(i)
	}
	return m
}()

// keptKeys is how long a list of keys may be for its memory to be used again.
const keptKeys = 256

// Forget drops what p points to, so that the frame's memory is free. It keeps the memory of a short list of keys.
func (p *Params) Forget() {
	keys := p.Keys[:cap(p.Keys)] // behind its end are the keys of earlier frames
	if len(keys) > keptKeys {
		keys = nil
	}
	clear(keys)
	*p = Params{Keys: keys[:0]}
}

// HasValue says whether data or a value was given, be it empty.
func (p *Params) HasValue() bool { return p.given.has(pData) || p.given.has(pValue) }

// HasKey says whether an id, a name or a key was given.
func (p *Params) HasKey() bool { return p.given&params(pID, pName, pKey) != 0 }

// HasIfEq says whether ifeq was given.
func (p *Params) HasIfEq() bool { return p.given.has(pIfEq) }

// HasLease says whether lease_ms was given.
func (p *Params) HasLease() bool { return p.given.has(pLease) }

// HasDelta says whether delta was given.
func (p *Params) HasDelta() bool { return p.given.has(pDelta) }

// HasFloor says whether floor was given.
func (p *Params) HasFloor() bool { return p.given.has(pFloor) }

// HasTTL says whether ttl_ms was given.
func (p *Params) HasTTL() bool { return p.given.has(pTTL) }

// decode reads the parameters of method m from the front of b and returns what follows them.
func (p *Params) decode(m Method, b []byte) ([]byte, error) {
	keys := p.Keys[:0]
	*p = Params{Keys: keys}
	if msgp.IsNil(b) {
		return msgp.ReadNilBytes(b)
	}
	n, b, err := msgp.ReadMapHeaderBytes(b)
	if err != nil {
		return b, protocolError("%s: params must be a map", m)
	}
	for range n {
		var name []byte
		if name, b, err = msgp.ReadStringZC(b); err != nil {
			return b, protocolError("%s: the name of a parameter must be a string", m)
		}
		known, ok := paramByName[string(name)]
		if !ok || !methods[m].params.has(known) {
			return b, protocolError("%s has no parameter %q", m, cut(name, maxWord))
		}
		if msgp.IsNil(b) {
			b = b[1:]
			continue
		}
		if b, err = fields[known].decode(p, b); err != nil {
			return b, protocolError("%s: %s %w", m, fields[known].name, err)
		}
		p.given |= 1 << known
	}
	return b, nil
}

func (f *field) decode(p *Params, b []byte) (rest []byte, err error) {
	switch {
	case f.bytes != nil:
		at := f.bytes(p)
		*at, rest, err = f.readBytes(b)
	case f.list != nil:
		at := f.list(p)
		*at, rest, err = f.readList((*at)[:0], b)
	case f.number != nil:
		at := f.number(p)
		if *at, rest, err = msgp.ReadInt64Bytes(b); err != nil {
			return b, fmt.Errorf("must be an integer that fits in 63 bits")
		}
		if *at < f.min {
			return b, fmt.Errorf("is %d; the least is %d", *at, f.min)
		}
	default:
		at := f.flag(p)
		if *at, rest, err = msgp.ReadBoolBytes(b); err != nil {
			return b, fmt.Errorf("must be true or false")
		}
	}
	return rest, err
}

func (f *field) readBytes(b []byte) (v, rest []byte, err error) {
	read := msgp.ReadStringZC
	if msgp.NextType(b) == msgp.BinType { // rather than try both: a failed try allocates its error
		read = msgp.ReadBytesZC
	}
	if v, rest, err = read(b); err != nil {
		return nil, b, fmt.Errorf("must be a string")
	}
	if int64(len(v)) < f.min {
		return nil, b, fmt.Errorf("must not be empty")
	}
	if f.max > 0 && len(v) > f.max {
		return nil, b, fmt.Errorf("is %d bytes long; the limit is %d", len(v), f.max)
	}
	return v, rest, nil
}

func (f *field) readList(list [][]byte, b []byte) ([][]byte, []byte, error) {
	n, b, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil {
		return nil, b, fmt.Errorf("must be a list of strings")
	}
	if n > MaxKeys {
		return nil, b, fmt.Errorf("has %d entries; the limit is %d", n, MaxKeys)
	}
	list = slices.Grow(list, min(int(n), len(b)))
	for range n {
		var v []byte
		if v, b, err = f.readBytes(b); err != nil {
			return nil, b, fmt.Errorf("has an entry that %w", err)
		}
		list = append(list, v)
	}
	return list, b, nil
}

// cut shortens what is only shown.
func cut(b []byte, n int) []byte { return b[:min(len(b), n)] }
