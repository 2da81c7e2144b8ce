package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/coatcheck/coatcheck/sidecar/tenant"
)

// readFile takes the settings of a TOML file. It returns false, with the problem reported, when
// the file as a whole cannot be understood.
func (l *loader) readFile(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		l.report(place{}, "reading the configuration: %v", err)
		return false
	}
	return l.readTOML(path, text)
}

// readTOML takes the settings of the text of a file. The decoder judges the document as a whole,
// such as keys given twice; the parser then knows the line of each key.
func (l *loader) readTOML(path string, text []byte) bool {
	if err := toml.Unmarshal(text, new(map[string]any)); err != nil {
		l.report(tomlPlace(path, err), "not valid TOML: %s", strings.TrimPrefix(err.Error(), "toml: "))
		return false
	}
	d := document{loader: l, path: path}
	d.parser.Reset(text)
	for d.parser.NextExpression() {
		d.expression(d.parser.Expression())
	}
	if err := d.parser.Error(); err != nil {
		l.report(place{name: path}, "not valid TOML: %v", err)
		return false
	}
	return true
}

func tomlPlace(path string, err error) place {
	var decodeError *toml.DecodeError
	if !errors.As(err, &decodeError) {
		return place{name: path}
	}
	line, _ := decodeError.Position()
	return place{path, line}
}

// A document is a TOML file on its way through the parser.
type document struct {
	*loader
	path   string
	parser unstable.Parser
	table  []string // the names in the last [header]
}

func (d *document) expression(node *unstable.Node) {
	switch node.Kind {
	case unstable.KeyValue:
		d.keyValue(d.table, node)
	case unstable.Table, unstable.ArrayTable:
		names, at := d.names(node)
		d.table = names
		switch name := strings.Join(names, "."); {
		case names[0] == tenants && len(names) <= 2:
			d.header(names, at)
		case !isSection(name):
			d.unknownSection(names, at)
			return
		}
		if node.Kind == unstable.ArrayTable {
			d.report(at, "[[%[1]s]] is a list: the section is written [%[1]s]", strings.Join(names, "."))
		}
	}
}

// header notes where a tenant begins, be it by [tenants.NAME] or by its first setting.
func (d *document) header(names []string, at place) {
	if names[0] != tenants || len(names) < 2 {
		return
	}
	name := names[1]
	if _, known := d.headers[name]; known {
		return
	}
	d.headers[name] = at
	if !tenant.ValidName(name) {
		d.report(at, "[tenants.%s]: a tenant cannot have this name; allowed: %s", quoted(name), tenant.NameRule)
		return
	}
	d.config.tenant(name)
}

// keyValue takes one setting, or each setting of an inline table.
func (d *document) keyValue(table []string, node *unstable.Node) {
	names, at := d.names(node)
	names = append(slices.Clone(table), names...)
	d.header(names, at)
	if names[0] == tenants && len(names) > 1 && !tenant.ValidName(names[1]) {
		return // it is reported where the tenant begins
	}
	key, value := strings.Join(names, "."), node.Value()
	if s, ok := settingByKey(key); ok {
		d.value(s, at, value)
		return
	}
	if value.Kind == unstable.InlineTable && (isSection(key) || names[0] == tenants && len(names) <= 2) {
		for children := value.Children(); children.Next(); {
			d.keyValue(names, children.Node())
		}
		return
	}
	d.unknownKey(key, at, value)
}

// value sets a setting if the value is of the right TOML type.
func (d *document) value(s setting, at place, value *unstable.Node) {
	g := given{at, string(value.Data), shown(value)}
	if s.kind.list && value.Kind == unstable.Array {
		var ok bool
		if g.text, ok = listed(value); !ok {
			d.refuse(s, g, "it must be a list of names in quotes and numbers")
			return
		}
		d.set(s, g)
		return
	}
	if first, ok := d.given[s.key]; ok {
		d.refuse(s, g, "it is already given on line "+fmt.Sprint(first.place.line))
		return
	}
	switch value.Kind {
	case unstable.String:
		d.set(s, g)
	case unstable.Integer, unstable.Float:
		if !s.kind.bare {
			d.refuse(s, g, "it must be text in quotes")
			return
		}
		g.text = strings.ReplaceAll(g.text, "_", "") // 10_000
		d.set(s, g)
	case unstable.Bool:
		if s.kind.noun != truth {
			d.refuse(s, g, "it must be text in quotes or a number")
			return
		}
		d.set(s, g)
	default:
		d.refuse(s, g, "it must be text in quotes or a number")
	}
}

func (d *document) unknownKey(key string, at place, value *unstable.Node) {
	if isSection(key) {
		d.report(at, "%[1]s = %[2]s: %[1]s is a section; write [%[1]s] and below it its settings: %[3]s",
			key, shown(value), strings.Join(namesIn(key), ", "))
		return
	}
	section := key[:max(strings.LastIndexByte(key, '.'), 0)]
	known := keys()
	if isSection(section) {
		for _, name := range namesIn(section) {
			known = append(known, section+"."+name)
		}
	}
	text := fmt.Sprintf("unknown key %s = %s", key, shown(value))
	if near := nearest(key, known); near != "" {
		text += fmt.Sprintf("; did you mean %s?", near)
	}
	if isSection(section) {
		text += fmt.Sprintf("; allowed in [%s]: %s", section, strings.Join(namesIn(section), ", "))
	} else if len(d.table) == 0 { // otherwise its header has been refused with this list
		text += fmt.Sprintf("; allowed: %s", everything())
	}
	d.report(at, "%s", text)
}

func (d *document) unknownSection(names []string, at place) {
	name := strings.Join(names, ".")
	text := fmt.Sprintf("unknown section [%s]", name)
	if _, ok := settingByKey(name); ok {
		text = fmt.Sprintf("[%[1]s] is not a section: write %[1]s = a value, above the first section", name)
	} else if near := nearest(name, sections()); near != "" {
		text += fmt.Sprintf("; did you mean [%s]?", near)
	}
	d.report(at, "%s; allowed: %s", text, everything())
}

// names returns the parts of a node's dotted key and where it begins.
func (d *document) names(node *unstable.Node) (names []string, at place) {
	for key := node.Key(); key.Next(); {
		part := key.Node()
		if names == nil {
			at = place{d.path, d.parser.Shape(part.Raw).Start.Line}
		}
		names = append(names, string(part.Data))
	}
	return names, at
}

// shown returns a value as an error shows it.
func shown(value *unstable.Node) string {
	switch value.Kind {
	case unstable.String:
		return quoted(string(value.Data))
	case unstable.Array:
		if text, ok := listed(value); ok {
			return "[" + text + "]"
		}
		return "[…]"
	case unstable.InlineTable:
		return "{…}"
	}
	return string(value.Data)
}

// listed returns the elements of an array of names and numbers, with commas between them.
func listed(array *unstable.Node) (text string, ok bool) {
	var elements []string
	for all := array.Children(); all.Next(); {
		e := all.Node()
		if e.Kind != unstable.String && e.Kind != unstable.Integer || strings.Contains(string(e.Data), ",") {
			return "", false
		}
		elements = append(elements, string(e.Data))
	}
	return strings.Join(elements, ","), true
}

// sections returns the names of the sections.
func sections() []string {
	var all []string
	for _, s := range settings {
		if section := s.section(); section != "" && !slices.Contains(all, section) {
			all = append(all, section)
		}
	}
	return all
}

// isSection says whether a name is that of a section, or of a tenant's.
func isSection(name string) bool {
	names := strings.Split(name, ".")
	return slices.Contains(sections(), name) || len(names) == 2 && names[0] == tenants && tenant.ValidName(names[1])
}

// keys returns the keys of all settings.
func keys() []string {
	var all []string
	for _, s := range settings {
		all = append(all, s.key)
	}
	return all
}

// namesIn returns the names of a section's settings; those at the top with the empty section.
func namesIn(section string) []string {
	among := settings
	if name, ok := strings.CutPrefix(section, tenants+"."); ok {
		among = settingsOfTenant(name)
	}
	var all []string
	for _, s := range among {
		if s.section() == section {
			all = append(all, s.name())
		}
	}
	return all
}

// everything names what may stand at the top of a file.
func everything() string {
	all := namesIn("")
	for _, section := range sections() {
		all = append(all, "["+section+"]")
	}
	return strings.Join(append(all, "["+tenants+".NAME]"), ", ")
}
