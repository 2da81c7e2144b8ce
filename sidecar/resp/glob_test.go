package resp

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, key string
		want         bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "abc", true},
		{"**", "abc", true},
		{"a*c", "abbc", true},
		{"a*c", "abbd", false},
		{"?", "", false},
		{"?", "a", true},
		{"a?c", "abc", true},
		{"*b*", "abc", true},
		{"*a*b*c", "xaxbxc", true},
		{"[abc]", "b", true},
		{"[abc]", "d", false},
		{"[^abc]", "d", true},
		{"[^abc]", "a", false},
		{"[a-c]x", "bx", true},
		{"[c-a]", "b", true},
		{`[\]]`, "]", true},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{`a\`, `a\`, true},
		{"[a", "a", true},
		{"[", "a", false},
		{"a*[b-d]*e", "aXXcYe", true},
		{"h*llo", "hello", true},
	} {
		if got := match([]byte(c.pattern), c.key); got != c.want {
			t.Errorf("match(%q, %q) = %v", c.pattern, c.key, got)
		}
	}
}

// TestMatchTakesNoLongTime: with a matcher that tries every length for every star, this would not end.
func TestMatchTakesNoLongTime(t *testing.T) {
	if match([]byte(strings.Repeat("*a", 5_000)+"*b"), strings.Repeat("a", 10_000)) {
		t.Error("it matches")
	}
}

func TestLiteralPrefix(t *testing.T) {
	for pattern, want := range map[string]string{"": "", "*": "", "user:*": "user:", "a?": "a", "a[b]": "a", `a\*`: "a", "whole": "whole"} {
		if got := string(literalPrefix([]byte(pattern))); got != want {
			t.Errorf("of %q: %q, want %q", pattern, got, want)
		}
	}
}
