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

// match says whether a key matches a pattern with *, ?, [abc], [^a-z] and \ before what is meant literally. It takes at
// most len(pattern) × len(key) steps: only the last star can take more than it did, since a later one
// makes up for any earlier.
func match(pattern []byte, key string) bool {
	p, k := 0, 0
	star, taken := -1, 0 // where the last star is, and up to where in key it reaches
	for k < len(key) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, taken = p, k
			p++
			continue
		case p < len(pattern):
			if ok, width := matchOne(pattern[p:], key[k]); ok {
				p += width
				k++
				continue
			}
		}
		if star < 0 {
			return false
		}
		taken++
		p, k = star+1, taken
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
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
