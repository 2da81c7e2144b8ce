package shell

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// example is a command of docs/commands.md with the output that is promised there.
type example struct{ command, output string }

// examples returns the commands of all console blocks. A line that begins with "$ " is a command, those behind it are
// its output.
func examples(t *testing.T) (list []example) {
	t.Helper()
	page, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(block[1]) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				list = append(list, example{command: strings.TrimSpace(command)})
			} else {
				list[len(list)-1].output += line
			}
		}
	}
	return list
}

// pattern makes the promised output a regular expression, in which "…" stands for anything: behind letters of an id for
// itself, on a line of its own for the lines that follow.
func pattern(output string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(output)
	quoted = strings.ReplaceAll(quoted, "\n…\n", "\n(?s:.*\n)?")
	return regexp.MustCompile("^" + strings.ReplaceAll(quoted, "…", ".*") + "$")
}

func TestTheExamplesOfTheManualHold(t *testing.T) {
	h := open(t)
	h.visit(alice, "", true)
	h.visit(alice, "", false)
	list := examples(t)
	if len(list) < 30 {
		t.Fatalf("docs/commands.md has %d examples; was its form changed?", len(list))
	}
	for _, e := range list {
		r := h.bash("exec 2>&1; " + e.command)
		if !pattern(e.output).MatchString(r.out) {
			t.Errorf("$ %s\n%s\nbut docs/commands.md says\n%s", e.command, r.out, e.output)
		}
	}
}
