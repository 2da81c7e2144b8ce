package crash

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	logLine = regexp.MustCompile(`Log\.(?:Warn|Error)\("([^"]+)"|\blog\.(?:Warn|Error)\("([^"]+)"`)
	metric  = regexp.MustCompile(`"(coatcheck_[a-z_]+)"`)
)

// TestTheManualExplainsEveryWarningAndEveryMetric of the daemon.
func TestTheManualExplainsEveryWarningAndEveryMetric(t *testing.T) {
	b, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	manual := string(b)
	found := 0
	err = filepath.WalkDir("../../sidecar", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, expression := range []*regexp.Regexp{logLine, metric} {
			for _, m := range expression.FindAllStringSubmatch(string(source), -1) {
				found++
				if text := strings.Join(m[1:], ""); !strings.Contains(manual, "`"+text+"`") {
					t.Errorf("docs/operations.md does not explain %q of %s", text, path)
				}
			}
		}
		return nil
	})
	if err != nil || found < 40 {
		t.Errorf("%d lines and metrics were found: %v", found, err)
	}
}

var (
	namedTest    = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+|[a-z_]+\\.phpt)`")
	declaredTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9]+)\(`)
)

// TestEveryTestThatTheThreatModelNamesIsThere: it says what shows each defence.
func TestEveryTestThatTheThreatModelNamesIsThere(t *testing.T) {
	model, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool)
	for _, root := range []string{"../../sidecar", "../../tests", "../../phpext-shim/tests"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			there[filepath.Base(path)] = true
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range declaredTest.FindAllSubmatch(source, -1) {
				there[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	named := namedTest.FindAllSubmatch(model, -1)
	for _, m := range named {
		if !there[string(m[1])] {
			t.Errorf("docs/security.md names %s, which is not there", m[1])
		}
	}
	if len(named) < 30 {
		t.Errorf("docs/security.md names %d tests", len(named))
	}
}
