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
