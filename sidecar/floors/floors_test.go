// Package floors guards the floors of the house: a package imports only from floors below its own.
// It holds nothing but its test, which reads what `go list` says of every package under sidecar and
// fails with the reason when a floor is broken.
package floors

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// home is the import path under which the house stands.
const home = "github.com/coatcheck/coatcheck/sidecar/"

// floors is the table of the house. A new package begins with a line here.
var floors = map[string]int{
	"wire":          0,
	"store":         0,
	"journal":       1,
	"arbiter":       1,
	"client":        1,
	"socket":        1,
	"tenant":        2,
	"cluster":       2,
	"owner":         2,
	"quorum":        2,
	"locker":        3,
	"roster":        3,
	"phpsock":       4,
	"resp":          4,
	"fpm":           4,
	"admin":         4,
	"config":        5,
	"app":           5,
	"cmd/coatcheck": 6,
}

// beside names what a package may import from its own floor: app wires together what config describes, roster
// shortens names as locker's log does, and owner asks the hosts that cluster knows.
var beside = map[string]string{"app": "config", "roster": "locker", "owner": "cluster"}

// keeper is a module that only one package may import, so that its ways stay in one place.
type keeper struct{ module, only, why string }

var keepers = []keeper{
	{"github.com/yookoala/gofast", "fpm", "what gofast leaves open is guarded there"},
	{"github.com/hashicorp/raft", "quorum", "the store must not depend on how its commands travel"},
}

// forbidden lists imports that would break what a package promises, with the promise.
var forbidden = map[string]map[string]string{
	"store": {
		"os":           "the store does no I/O",
		"io":           "the store does no I/O",
		"io/fs":        "the store does no I/O",
		"net":          "the store knows of no network",
		"net/http":     "the store knows of no network",
		"syscall":      "the store does no I/O",
		"log":          "the store does no I/O",
		"log/slog":     "the store does no I/O",
		"context":      "a command never waits",
		"math/rand":    "all randomness arrives in the command",
		"math/rand/v2": "all randomness arrives in the command",
		"crypto/rand":  "all randomness arrives in the command",
	},
	"wire": {
		"net":      "wire works on byte slices and touches no socket",
		"net/http": "wire works on byte slices and touches no socket",
		"os":       "wire works on byte slices and touches no file",
		"syscall":  "wire works on byte slices and touches no socket",
		"sync":     "wire starts no goroutine, so it has nothing to guard",
		"context":  "wire does not wait",
	},
}

// timeless lists packages that know no clock, with the only names of package time that they may use.
var timeless = map[string][]string{
	"store": {"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"},
	"wire":  {"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"},
}

// still lists packages that start no goroutine.
var still = []string{"store", "wire"}

// goPackage is what `go list` says of a package.
type goPackage struct {
	Dir        string
	ImportPath string
	GoFiles    []string
	Imports    []string
}

// name returns the package's name in the table, or false when it is not of the house.
func (p goPackage) name() (string, bool) { return strings.CutPrefix(p.ImportPath, home) }

// broken returns what is wrong with the imports of packages, one sentence each.
func broken(packages []goPackage) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, p := range packages {
		name, ours := p.name()
		if !ours || len(p.GoFiles) == 0 {
			continue
		}
		floor, known := floors[name]
		if !known {
			say("%s is on no floor: give it a line in the table of sidecar/floors", name)
			continue
		}
		for _, path := range p.Imports {
			if why := forbidden[name][path]; why != "" {
				say("%s imports %s: %s", name, path, why)
			}
			for _, k := range keepers {
				if (path == k.module || strings.HasPrefix(path, k.module+"/")) && name != k.only {
					say("%s imports %s, which only %s may: %s", name, path, k.only, k.why)
				}
			}
			other, ours := strings.CutPrefix(path, home)
			if !ours || beside[name] == other {
				continue
			}
			switch under, known := floors[other]; {
			case !known: // it is reported by itself
			case under > floor:
				say("%s (floor %d) imports %s (floor %d), which is above it", name, floor, other, under)
			case under == floor:
				say("%s (floor %d) imports %s, which is on the same floor", name, floor, other)
			}
		}
	}
	return faults
}

// restless returns where a source file reads a clock or starts a goroutine although its package must not.
func restless(name string, files *token.FileSet, file *ast.File) (faults []string) {
	say := func(at token.Pos, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s: %s", files.Position(at), fmt.Sprintf(format, args...)))
	}
	allowed, knowsNoClock := timeless[name]
	clock := ""
	for _, i := range file.Imports {
		if i.Path.Value == `"time"` {
			clock = "time"
			if i.Name != nil {
				clock = i.Name.Name
			}
		}
	}
	if knowsNoClock && clock == "." {
		say(file.Name.Pos(), "%s imports time without a name, so nobody can see what it uses of it", name)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if ok && knowsNoClock && clock != "" && x.Name == clock && !slices.Contains(allowed, n.Sel.Name) {
				say(n.Pos(), "%s uses time.%s: the time arrives from outside", name, n.Sel.Name)
			}
		case *ast.GoStmt:
			if slices.Contains(still, name) {
				say(n.Pos(), "%s starts a goroutine, which it must not", name)
			}
		}
		return true
	})
	return faults
}

// list asks the go command for the packages of the house and all they depend on.
func list(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,ImportPath,GoFiles,Imports", "./sidecar/...")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []goPackage
	for in := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := in.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatalf("read what go list says: %v", err)
		}
		packages = append(packages, p)
	}
}

// look opens every source file of the house. The go command keeps a test's result until a file that the test itself
// opened changes, and what `go list` opens does not count.
func look(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".go") {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFloorsHold(t *testing.T) {
	look(t)
	packages := list(t)
	seen := map[string]bool{}
	for _, p := range packages {
		if name, ours := p.name(); ours {
			seen[name] = true
		}
	}
	for _, name := range []string{"wire", "store", "arbiter", "locker", "phpsock", "app", "cmd/coatcheck"} {
		if !seen[name] {
			t.Errorf("go list did not show %s: is this test looking at the right place?", name)
		}
	}
	for _, fault := range broken(packages) {
		t.Error(fault)
	}
}

func TestPureFloorsReadNoClockAndStartNothing(t *testing.T) {
	look(t)
	checked := 0
	for _, p := range list(t) {
		name, ours := p.name()
		if _, pure := timeless[name]; !ours || !pure {
			continue
		}
		for _, f := range p.GoFiles {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, f), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, fault := range restless(name, files, file) {
				t.Error(fault)
			}
			checked++
		}
	}
	if checked < len(timeless) {
		t.Errorf("only %d files of %v were read", checked, slices.Sorted(maps.Keys(timeless)))
	}
}

// at makes a package of the house with imports, where names without a dot in their first part are of the house.
func at(name string, imports ...string) goPackage {
	p := goPackage{ImportPath: home + name, GoFiles: []string{"x.go"}}
	for _, i := range imports {
		if _, ours := floors[i]; ours || i == "attic" {
			i = home + i
		}
		p.Imports = append(p.Imports, i)
	}
	return p
}

func TestGuardCanFail(t *testing.T) {
	for _, c := range []struct {
		what string
		p    goPackage
		want string // part of the only fault; empty: none
	}{
		{"downwards is right", at("phpsock", "locker", "arbiter", "store", "wire"), ""},
		{"down to the cellar from the roof is right", at("cmd/coatcheck", "app", "config", "client", "wire"), ""},
		{"config is beside app", at("app", "config", "phpsock", "fpm"), ""},
		{"but app is not beside config", at("config", "app"), "same floor"},
		{"upwards", at("store", "arbiter"), "store (floor 0) imports arbiter (floor 1), which is above it"},
		{"far upwards", at("locker", "phpsock"), "above it"},
		{"sideways", at("store", "wire"), "store (floor 0) imports wire, which is on the same floor"},
		{"a package without a floor", at("attic", "wire"), "attic is on no floor"},
		{"files from the store", at("store", "os"), "store imports os: the store does no I/O"},
		{"a socket from wire", at("wire", "net"), "wire imports net"},
		{"randomness in the store", at("store", "math/rand/v2"), "all randomness arrives in the command"},
		{"gofast in its place", at("fpm", "github.com/yookoala/gofast"), ""},
		{"gofast elsewhere", at("app", "github.com/yookoala/gofast"), "which only fpm may"},
		{"raft in its place", at("quorum", "github.com/hashicorp/raft", "store"), ""},
		{"a part of raft elsewhere", at("owner", "github.com/hashicorp/raft/boltdb"), "which only quorum may"},
		{"raft-boltdb is not a part of raft", at("journal", "github.com/hashicorp/raft-boltdb"), ""},
		{"foreign packages are not judged", goPackage{ImportPath: "net/http", GoFiles: []string{"x.go"}, Imports: []string{"os"}}, ""},
		{"nor packages of tests alone", goPackage{ImportPath: home + "floors"}, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			faults := broken([]goPackage{c.p})
			switch {
			case c.want == "" && len(faults) > 0:
				t.Errorf("broken says %q, want nothing", faults)
			case c.want != "" && (len(faults) != 1 || !strings.Contains(faults[0], c.want)):
				t.Errorf("broken says %q, want one fault with %q", faults, c.want)
			}
		})
	}
}

func TestScanCanFail(t *testing.T) {
	for _, c := range []struct {
		what, pkg, source string
		want              string // part of the only fault; empty: none
	}{
		{"a constant of time", "store", `import "time"; const hour = time.Hour`, ""},
		{"the clock", "store", `import "time"; var now = time.Now()`, "store uses time.Now"},
		{"the clock by another name", "store", `import clock "time"; var now = clock.Now`, "store uses time.Now"},
		{"a timer", "wire", `import "time"; var t = time.NewTimer(1)`, "wire uses time.NewTimer"},
		{"time without a name", "store", `import . "time"; var now = Now()`, "without a name"},
		{"a method called Now of something else", "store", `type c struct{}; func (c) Now() {}; var _ = c.Now`, ""},
		{"a goroutine", "wire", `func f() { go f() }`, "starts a goroutine"},
		{"a goroutine where they are allowed", "locker", `func f() { go f() }`, ""},
		{"the clock where it is allowed", "locker", `import "time"; var now = time.Now()`, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, "x.go", "package x; "+c.source, 0)
			if err != nil {
				t.Fatal(err)
			}
			faults := restless(c.pkg, files, file)
			switch {
			case c.want == "" && len(faults) > 0:
				t.Errorf("restless says %q, want nothing", faults)
			case c.want != "" && (len(faults) != 1 || !strings.Contains(faults[0], c.want)):
				t.Errorf("restless says %q, want one fault with %q", faults, c.want)
			}
		})
	}
}
