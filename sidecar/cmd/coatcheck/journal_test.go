package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/journal"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// keep makes a data directory of three values, as a daemon with those keys would, and returns it with its segment's path.
func keep(t *testing.T, keys *journal.Keys) (dir, segment string) {
	t.Helper()
	dir = t.TempDir()
	s := store.New(store.Limits{})
	j := journal.New(journal.Config{Dir: dir, Values: true, Keys: keys, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, s)
	if err := j.Open(); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "c"} {
		s.Apply(&store.Command{Op: store.OpSet, Now: 1, Key: []byte(key), Value: []byte("value")})
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, "journal-0000000000000001")
}

// spoil changes the byte at an offset from the end.
func spoil(t *testing.T, path string, fromEnd int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-fromEnd] ^= 0xFF
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestJournalCheckFindsNothingWrong(t *testing.T) {
	dir, segment := keep(t, nil)
	code, out, errOut := command("journal", "check", dir)
	if code != exitOK || errOut != "" || out != dir+": 1 files, 3 records, no damage\n" {
		t.Errorf("%d: %s%s", code, out, errOut)
	}
	spoil(t, segment, 1) // the last record: a start drops it
	code, out, _ = command("journal", "check", dir)
	if code != exitOK || !strings.Contains(out, "2 records, no damage\n"+segment+", offset ") || !strings.Contains(out, "a start drops it") {
		t.Errorf("%d: %s", code, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("the check left %v: %v", left, err)
	}
}

func TestJournalCheckTellsWhereDamageIsAndRepairKeepsWhatIsBefore(t *testing.T) {
	dir, segment := keep(t, nil)
	spoil(t, segment, 24) // the last byte of the second of three records, of 23 bytes each
	code, _, errOut := command("journal", "check", dir)
	for _, want := range []string{segment + ", offset ", "checksum", "1 records are before it", "coatcheck journal repair " + dir} {
		if code != exitFailed || !strings.Contains(errOut, want) {
			t.Errorf("%d: %q is not in: %s", code, want, errOut)
		}
	}
	var found struct {
		OK      bool
		Records int
		Damage  struct {
			File, What string
			Offset     int64
		}
	}
	code, out, errOut := command("journal", "check", dir, "--json")
	if err := json.Unmarshal([]byte(out), &found); code != exitFailed || err != nil || errOut != "" ||
		found.OK || found.Records != 1 || found.Damage.File != segment || found.Damage.Offset == 0 || found.Damage.What == "" {
		t.Errorf("%d, %v: %s%s", code, err, out, errOut)
	}

	code, out, errOut = command("journal", "repair", dir)
	if code != exitOK || errOut != "" || !strings.Contains(out, segment+" was cut to its first") || !strings.Contains(out, segment+".lost") {
		t.Errorf("%d: %s%s", code, out, errOut)
	}
	if code, out, errOut = command("journal", "check", dir); code != exitOK || !strings.Contains(out, "1 records, no damage") {
		t.Errorf("%d: %s%s", code, out, errOut)
	}
	if code, out, _ = command("journal", "repair", dir); code != exitOK || out != "there is nothing to repair\n" {
		t.Errorf("%d: %s", code, out)
	}
	if code, out, _ = command("journal", "repair", dir, "--json"); code != exitOK || out != `{"did":[]}`+"\n" {
		t.Errorf("%d: %s", code, out)
	}
}

func TestJournalCheckWantsTheKeyOfASealedDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(strings.Repeat("0f", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := journal.LoadKeys(file)
	if err != nil {
		t.Fatal(err)
	}
	dir, _ := keep(t, keys)
	for _, what := range []string{"check", "repair"} {
		if code, _, errOut := command("journal", what, dir); code != exitFailed || !strings.Contains(errOut, "no key file is given") {
			t.Errorf("%s without it: %d: %s", what, code, errOut)
		}
		if code, out, errOut := command("journal", what, dir, "--key-file", file); code != exitOK {
			t.Errorf("%s with it: %d: %s%s", what, code, out, errOut)
		}
	}
}

func TestJournalCheckOfWhatIsNotThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if code, _, errOut := command("journal", "check", dir); code != exitFailed || !strings.Contains(errOut, dir) {
		t.Errorf("%d: %s", code, errOut)
	}
}
