package config

import "strings"

// maxChanges is how many characters a misspelt name may differ in. More finds nonsense.
const maxChanges = 3

// nearest returns the candidate that was probably meant: the one with the fewest characters to
// change, or one with the same last name in another section. It returns "" when none is near.
func nearest(name string, candidates []string) string {
	best, fewest := "", min(len(name)/3, maxChanges)+1
	for _, candidate := range candidates {
		if changes := distance(name, candidate); changes < fewest {
			best, fewest = candidate, changes
		}
	}
	if best != "" {
		return best
	}
	for _, candidate := range candidates {
		if lastName(candidate) == lastName(name) {
			return candidate
		}
	}
	return ""
}

func lastName(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// distance is the Levenshtein distance: how many bytes must be inserted, removed or replaced to
// turn a into b. It is only asked of names; a long one is cut, which makes it no nearer.
func distance(a, b string) int {
	const longest = 100
	a = a[:min(len(a), longest)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
