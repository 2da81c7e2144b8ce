package store

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// packFrom is the length from which a value is compressed.
const packFrom = 1 << 10

// packer compresses values. It is safe for concurrent use.
type packer struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// sharedPacker makes the one packer of all stores: it keeps nothing between two values, but is costly to make.
var sharedPacker = sync.OnceValue(newPacker)

func newPacker() *packer {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20))
	if err != nil {
		panic("store: zstd: " + err.Error())
	}
	dec, err := zstd.NewReader(nil)
	if err != nil {
		panic("store: zstd: " + err.Error())
	}
	return &packer{enc, dec}
}

// pack returns b compressed, or nil when b is short or would not become smaller by an eighth at least.
func (p *packer) pack(b []byte) []byte {
	if len(b) < packFrom {
		return nil
	}
	packed := p.enc.EncodeAll(b, make([]byte, 0, len(b)/2))
	if len(packed) > len(b)-len(b)/8 {
		return nil
	}
	return append([]byte(nil), packed...) // of no more than its size
}

// unpack returns the plain bytes, plain of them.
func (p *packer) unpack(b []byte, plain int) []byte {
	out, err := p.dec.DecodeAll(b, make([]byte, 0, plain))
	if err != nil {
		panic("store: a compressed value is damaged: " + err.Error())
	}
	return out
}
