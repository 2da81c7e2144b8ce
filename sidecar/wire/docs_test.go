package wire

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// protocol reads docs/protocol.md.
func protocol(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// row is one line of a table.
type row []string

var quoted = regexp.MustCompile("`([^`]+)`")

// words returns what a cell has between backquotes.
func words(cell string) (w []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		w = append(w, m[1])
	}
	return w
}

// table returns the rows of every table whose first column is called head.
func table(doc, head string) (rows []row) {
	inside := false
	for line := range strings.Lines(doc) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case cells[0] == head:
			inside = true
		case inside && !strings.HasPrefix(cells[0], "---"):
			rows = append(rows, cells)
		}
	}
	return rows
}

func TestDocumentedMethodsAreThose(t *testing.T) {
	doc := protocol(t)
	documented := map[string]bool{}
	for _, r := range table(doc, "method") {
		name := words(r[0])[0]
		documented[name] = true
		m, ok := methodByName[name]
		if !ok {
			t.Errorf("docs/protocol.md has the method %s, which there is not", name)
			continue
		}
		// Words in parentheses explain: defaults, the values of an enumeration.
		cell := regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(r[1], "")
		told := words(cell)
		if strings.HasPrefix(name, "kv.") || strings.HasPrefix(name, "lock.") && takesBucket(doc) {
			told = append(told, "bucket") // "is accepted by every method"
		}
		var known []string
		for p := range paramCount {
			if methods[m].params.has(p) {
				known = append(known, fields[p].name)
			}
		}
		slices.Sort(told)
		slices.Sort(known)
		if !slices.Equal(slices.Compact(told), known) {
			t.Errorf("%s: docs/protocol.md has the parameters %v, the table %v", name, told, known)
		}
	}
	for m := range Unknown {
		if !documented[m.String()] {
			t.Errorf("docs/protocol.md does not have the method %s", m)
		}
	}
}

// takesBucket says whether the page says that locks have buckets too.
func takesBucket(doc string) bool {
	_, locks, _ := strings.Cut(doc, "## Locks")
	locks, _, _ = strings.Cut(locks, "## ")
	return strings.Contains(locks, "`bucket`")
}

func TestDocumentedCodesAreThose(t *testing.T) {
	var told []string
	for _, r := range table(protocol(t), "code") {
		told = append(told, words(r[0])[0])
	}
	var known []string
	for _, c := range Codes {
		known = append(known, string(c))
	}
	if !slices.Equal(told, known) {
		t.Errorf("docs/protocol.md has the codes %v, the table %v", told, known)
	}
}

func TestDocumentedLimitsAreThose(t *testing.T) {
	doc := protocol(t)
	for _, says := range []string{"Keys are 1 to 65,535 bytes", "`token` is 1 to 255 bytes", "(16 MiB by default", "`version` = 1"} {
		if !strings.Contains(doc, says) {
			t.Errorf("docs/protocol.md does not say %q any more: is it still true, and does this test know what is?", says)
		}
	}
	if MaxKey != 65_535 || maxWord != 255 || DefaultMaxFrame != 16<<20 || Version != 1 {
		t.Error("a limit changed: say so in docs/protocol.md")
	}
}
