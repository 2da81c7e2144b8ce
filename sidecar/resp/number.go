package resp

import (
	"bytes"
	"math"
)

// maxDigits is how many digits the largest 64-bit integer has. So many cannot overflow 64 bits without a sign.
const maxDigits = 19

// parseInt reads a decimal 64-bit integer as Redis does: no sign but a minus, no leading zeros, no spaces.
func parseInt(b []byte) (int64, bool) {
	digits, negative := bytes.CutPrefix(b, []byte{'-'})
	if len(digits) == 0 || len(digits) > maxDigits || digits[0] == '0' && (len(digits) > 1 || negative) {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	if negative {
		return -int64(n), n <= -math.MinInt64
	}
	return int64(n), n <= math.MaxInt64
}
