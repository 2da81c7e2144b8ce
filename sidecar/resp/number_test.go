package resp

import (
	"math"
	"testing"
)

func TestParseInt(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "-1": -1, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
	} {
		if got, ok := parseInt([]byte(text)); !ok || got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", "-", "+1", "01", "-0", "-01", " 1", "1 ", "1.0", "x", "9223372036854775808", "-9223372036854775809", "99999999999999999999", "--1",
	} {
		if got, ok := parseInt([]byte(text)); ok {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}
