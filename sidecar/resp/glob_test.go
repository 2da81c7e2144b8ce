package resp

import (
	"strings"
	"testing"
)

// match says whether a key matches a pattern, however long that takes.
func match(pattern []byte, key string) bool {
	m := matcher{pattern: pattern, onward: func() failure { return "" }}
	return m.match(key)
}

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
	pattern := strings.Repeat("*a", maxPattern/2-1) + "*b"
	if match([]byte(pattern), strings.Repeat("a", 10_000)) {
		t.Error("it matches")
	}
}

// TestAMatcherAsksWhetherToGoOn, within a single key and over many, also when a step is a long class, and gives up by itself.
func TestAMatcherAsksWhetherToGoOn(t *testing.T) {
	for what, c := range map[string]struct {
		pattern, key string
		keys         int
	}{
		"one long key":         {"*" + strings.Repeat("a", maxPattern-2) + "b", strings.Repeat("a", maxKey), 1},
		"a long class":         {"*[" + strings.Repeat("b", maxPattern-2), strings.Repeat("a", maxKey), 1},
		"many keys":            {"b", "a", stepsAtOnce + 1},
		"many keys that match": {"a?", "aa", stepsAtOnce},
	} {
		asked := 0
		m := matcher{pattern: []byte(c.pattern), onward: func() failure { asked++; return errGone }}
		for range c.keys {
			m.match(c.key)
		}
		if asked != 1 || m.stopped != errGone || m.match("") {
			t.Errorf("%s: asked %d times, then %q", what, asked, m.stopped)
		}
	}
	m := matcher{pattern: []byte("*[" + strings.Repeat("b", maxPattern-2)), onward: func() failure { return "" }}
	m.total = maxSteps - 3*stepsAtOnce
	for i := 0; m.stopped == ""; i++ {
		if i > 10 {
			t.Fatal("it never gives up")
		}
		m.match(strings.Repeat("a", maxKey))
	}
	if m.stopped != errManySteps {
		t.Errorf("it gave up with %q", m.stopped)
	}
}

func TestLiteralPrefix(t *testing.T) {
	for pattern, want := range map[string]string{"": "", "*": "", "user:*": "user:", "a?": "a", "a[b]": "a", `a\*`: "a", "whole": "whole"} {
		if got := string(literalPrefix([]byte(pattern))); got != want {
			t.Errorf("of %q: %q, want %q", pattern, got, want)
		}
	}
}
