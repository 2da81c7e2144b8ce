package resp

import "strings"

// literalPrefix returns how every key that matches the pattern begins.
func literalPrefix(pattern []byte) []byte {
	for i, b := range pattern {
		if strings.IndexByte(`*?[\`, b) >= 0 {
			return pattern[:i]
		}
	}
	return pattern
}

// maxPattern is the length of the longest pattern. A key takes up to as many steps as its length times the pattern's.
const maxPattern = 1 << 10

const (
	// stepsAtOnce is how many steps a matcher takes until it asks whether to go on: some milliseconds.
	stepsAtOnce = 1 << 20
	// maxSteps is how many it takes for one command. Ten million keys of fifty bytes can be looked at; a longer pattern or
	// longer keys would occupy a processor for minutes.
	maxSteps = 1 << 29
)

// matcher finds the keys that match a pattern with *, ?, [abc], [^a-z] and \ before what is meant literally.
type matcher struct {
	pattern []byte         // of maxPattern bytes at most
	onward  func() failure // called now and then: why not to go on
	steps   int            // since it was called
	total   int            // before that
	stopped failure        // why it was said not to go on; nothing matches any more
}

// filter keeps those of the keys that match, in place.
func (m *matcher) filter(keys []string) ([]string, failure) {
	some := keys[:0]
	for _, key := range keys {
		if m.match(key) {
			some = append(some, key)
		}
	}
	return some, m.stopped
}

// match says whether a key matches. It takes at most len(pattern) × len(key) steps: only the last star can take more than it did, since a later one
// makes up for any earlier.
func (m *matcher) match(key string) bool {
	pattern := m.pattern
	if m.steps++; !m.goesOn() {
		return false
	}
	p, k := 0, 0
	star, taken := -1, 0 // where the last star is, and up to where in key it reaches
	for k < len(key) {
		width := 1
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, taken = p, k
			p++
			continue
		case p < len(pattern):
			var ok bool
			if ok, width = matchOne(pattern[p:], key[k]); ok {
				p += width
				k++
				m.steps += width
				continue
			}
		}
		if star < 0 {
			return false
		}
		taken++
		p, k = star+1, taken
		if m.steps += width; !m.goesOn() {
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// goesOn asks whether to go on when it is time to.
func (m *matcher) goesOn() bool {
	if m.steps < stepsAtOnce || m.stopped != "" {
		return m.stopped == ""
	}
	m.total, m.steps = m.total+m.steps, 0
	if m.stopped = m.onward(); m.stopped == "" && m.total >= maxSteps {
		m.stopped = errManySteps
	}
	return m.stopped == ""
}

// matchOne says whether the front of a pattern, not a star, matches b, and how long that front is.
func matchOne(pattern []byte, b byte) (ok bool, width int) {
	switch pattern[0] {
	case '?':
		return true, 1
	case '[':
		return matchClass(pattern, b)
	case '\\':
		if len(pattern) > 1 {
			return pattern[1] == b, 2
		}
	}
	return pattern[0] == b, 1
}

// matchClass is matchOne for a class in brackets. A class that is not closed reaches to the end of the pattern, as in Redis.
func matchClass(pattern []byte, b byte) (ok bool, width int) {
	i := 1
	negated := i < len(pattern) && pattern[i] == '^'
	if negated {
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			ok = ok || pattern[i] == b
		case i+2 < len(pattern) && pattern[i+1] == '-':
			low, high := min(pattern[i], pattern[i+2]), max(pattern[i], pattern[i+2])
			ok = ok || low <= b && b <= high
			i += 2
		default:
			ok = ok || pattern[i] == b
		}
	}
	return ok != negated, min(i+1, len(pattern))
}
