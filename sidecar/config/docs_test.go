package config

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/config.md and docs/coatcheck.example.toml")

const docsDirectory = "../../docs"

// documents are the generated files and how each is made.
var documents = map[string]func(comments) string{
	"config.md":              reference,
	"coatcheck.example.toml": example,
}

func TestDocumentsAreUpToDate(t *testing.T) {
	c := readComments(t)
	for name, generate := range documents {
		path := filepath.Join(docsDirectory, name)
		want := generate(c)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s does not say what config.go says (%v): run go generate ./sidecar/config", path, err)
		}
	}
}

func TestExampleGivesTheDefaults(t *testing.T) {
	path := filepath.Join(docsDirectory, "coatcheck.example.toml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	commented := regexp.MustCompile(`(?m)^#([a-z_]+ = )`)
	if n := len(commented.FindAll(text, -1)); n != len(settings) {
		t.Errorf("the example has %d settings, want %d", n, len(settings))
	}
	for name, content := range map[string][]byte{
		"as it is":             text,
		"all lines taken into": commented.ReplaceAll(text, []byte("$1")),
	} {
		got, _, err := Load(writeFile(t, string(content)), nil, nil)
		if err != nil || !reflect.DeepEqual(got, Default()) {
			t.Errorf("%s: got %+v, %v; want the defaults", name, got, err)
		}
	}
}

// comments are the comments of config.go by key; a section's by its name.
type comments map[string]string

// readComments takes the comments from the source, so that they need to be written only once.
func readComments(t *testing.T) comments {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	structs := make(map[string]*ast.StructType)
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if s, ok := spec.Type.(*ast.StructType); ok {
				structs[spec.Name.Name] = s
			}
		}
		return true
	})
	c := make(comments)
	c.read(t, structs, "Config", "")
	return c
}

func (c comments) read(t *testing.T, structs map[string]*ast.StructType, name, prefix string) {
	for _, field := range structs[name].Fields.List {
		if field.Tag == nil {
			continue
		}
		key := prefix + keyTag(field)
		text := field.Doc.Text()
		rest, ok := strings.CutPrefix(text, field.Names[0].Name+" ")
		if !ok {
			t.Errorf("the comment of %s.%s does not begin with the field's name", name, field.Names[0].Name)
		}
		if list, ok := field.Type.(*ast.ArrayType); ok {
			key += ".NAME"
			c.read(t, structs, list.Elt.(*ast.Ident).Name, key+".")
		}
		c[key] = strings.TrimSpace(rest)
		if section, ok := field.Type.(*ast.Ident); ok && structs[section.Name] != nil && section.Name != "Addr" {
			c.read(t, structs, section.Name, key+".")
		}
	}
}

func keyTag(field *ast.Field) string {
	_, rest, _ := strings.Cut(field.Tag.Value, `key:"`)
	key, _, _ := strings.Cut(rest, `"`)
	return key
}

// literal writes a default as a TOML value.
func literal(s setting) string {
	if s.kind.list {
		return "[" + s.initial() + "]"
	}
	if value := s.initial(); s.kind.bare && strings.Trim(value, "0123456789") == "" {
		return value
	}
	if s.kind.noun == truth {
		return s.initial()
	}
	return fmt.Sprintf("%q", s.initial())
}

// reference generates docs/config.md.
func reference(c comments) string {
	var b strings.Builder
	b.WriteString(introduction)
	section := ""
	for _, s := range append(slices.Clone(settings), settingsOfTenant("NAME")...) {
		if s.section() != section {
			section = s.section()
			fmt.Fprintf(&b, "\n## [%s]\n\n`[%s]` %s\n", section, section, c[section])
		}
		fmt.Fprintf(&b, "\n### %s\n\n`%s` %s\n\n", s.key, s.key, c[s.key])
		fmt.Fprintf(&b, "* default: `%s`\n* allowed: %s\n", literal(s), s.allowed())
		if s.tenant == "" {
			fmt.Fprintf(&b, "* variable: `%s`\n", s.variable())
		}
		if s.flag() != "" {
			argument, _, _ := strings.Cut(s.tag.Get("flag"), " ")
			fmt.Fprintf(&b, "* flag: `--%s %s`\n", s.flag(), argument)
		}
		if later := s.tag.Get("later"); later != "" {
			fmt.Fprintf(&b, "* note: %s\n", later)
		}
	}
	return b.String()
}

const introduction = "# Settings of the daemon\n" + `
This page and ` + "`docs/coatcheck.example.toml`" + ` are generated from ` + "`sidecar/config/config.go`" + ` by
` + "`go generate ./sidecar/config`" + `.

A value comes from its default, the file, the environment or a flag of ` + "`coatcheck serve`" + `; the later in this
order wins. A value that is overridden must still be well written.

* The **file** is TOML. ` + "`--config FILE` or `COATCHECK_CONFIG`" + ` names it; there is none by default. A key that
  is not on this page is an error. A flag's name is accepted as a key too (` + "`log-level`" + `).
* Each **variable** is ` + "`COATCHECK_`" + ` and the key in capitals; the settings of ` + "`[tenants.NAME]`" + ` have none. A variable that is set but empty counts: it
  turns off what may be empty and is an error elsewhere. A variable ` + "`COATCHECK_*`" + ` that is no setting is a
  warning and not an error, because other programs may use such names; those that coatcheck uses otherwise
  (` + "`COATCHECK_CONFIG`, `COATCHECK_FENCE`, `COATCHECK_TEST_*`, `COATCHECK_DOCKER_*`" + `) are passed over.
* ` + "`coatcheck check-config FILE`" + ` judges the file by itself, without the environment: it prints each problem
  with its line, the key, the value and what is allowed, and exits with 1; or ` + "`FILE: ok`" + ` and 0. Users, groups and ` + "`docroot`" + ` are
  looked up, so run it on the machine where the daemon will run; whether the other paths can be used is seen at the start.

How values are written:

* a *duration* with its units: ` + "`\"500ms\"`, `\"30s\"`, `\"1m30s\"`, `\"24h\"`" + `. A number alone is an error, except 0.
* a *size* with a binary unit, ` + "`\"64KiB\"`, `\"16MiB\"`, `\"1GiB\"`" + `, or as plain bytes: ` + "`65536`" + `.
* an *address* as ` + "`\"unix:/path\"` or `\"host:port\"`" + `; a host left out of ` + "`host:port`" + ` means every address of the
  machine. Empty means off.
* a *list* as ` + "`[\"www-data\", 1000]`" + `.

## Top level
`

// example generates docs/coatcheck.example.toml.
func example(c comments) string {
	var b strings.Builder
	b.WriteString("# Settings of the coatcheck daemon, all at their defaults: take away the # to change one.\n" +
		"# Generated from sidecar/config/config.go. docs/config.md explains how values are written.\n")
	section := ""
	for _, s := range settings {
		if s.section() != section {
			section = s.section()
			fmt.Fprintf(&b, "\n# %s %s\n[%s]\n", section, remark(c[section]), section)
		}
		fmt.Fprintf(&b, "\n# %s %s\n# Allowed: %s.\n", s.name(), remark(c[s.key]), s.allowed())
		if later := s.tag.Get("later"); later != "" {
			fmt.Fprintf(&b, "# Note: %s.\n", later)
		}
		fmt.Fprintf(&b, "#%s = %s\n", s.name(), literal(s))
	}
	// A table makes a tenant, so its header is commented out as well.
	fmt.Fprintf(&b, "\n# %s %s\n#[%s]\n", "tenants.NAME", remark(c["tenants.NAME"]), "tenants.NAME")
	for _, s := range settingsOfTenant("NAME") {
		fmt.Fprintf(&b, "\n# %s %s\n# Allowed: %s.\n# %s = %s\n", s.name(), remark(c[s.key]), s.allowed(), s.name(), literal(s))
	}
	return b.String()
}

func remark(text string) string { return strings.ReplaceAll(text, "\n", "\n# ") }

func writeFile(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "coatcheck.toml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
