package config

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const (
	variablePrefix = "COATCHECK_"
	// fileVariable names the file where the flag --config does not.
	fileVariable = "COATCHECK_CONFIG"
)

// RegisterFlags adds the flags of the settings to fs. The map it returns is filled when fs is
// parsed, for Load. Values are judged by Load, together with those from elsewhere.
func RegisterFlags(fs *flag.FlagSet) map[string]string {
	given := make(map[string]string)
	for _, s := range settings {
		name := s.flag()
		if name == "" {
			continue
		}
		fs.Func(name, s.flagUsage(), func(text string) error {
			given[name] = text
			return nil
		})
	}
	return given
}

// flagUsage returns the line of --help. Package flag takes the argument's name from backquotes.
func (s setting) flagUsage() string {
	argument, usage, _ := strings.Cut(s.tag.Get("flag"), " ")
	usage = fmt.Sprintf("`%s` %s (%s)", argument, usage, s.variable())
	if s.initial() != "" {
		usage += fmt.Sprintf(" (default %s)", s.initial())
	}
	return usage
}

// Load reads the settings from the file at path, the variables of environ ("NAME=value", as
// os.Environ gives them) and the flags that RegisterFlags collected. With an empty path the
// variable COATCHECK_CONFIG names the file; without that too there is none.
//
// The error joins every problem, one sentence each. A value that another one overrides must
// still be well written, but only the one that counts must be allowed. Warnings name variables
// that begin with COATCHECK_ and are no setting: other programs may use such names, so they do
// not stop the daemon. Their values are not shown.
func Load(path string, environ []string, flags map[string]string) (config Config, warnings []string, err error) {
	l := newLoader()
	path = cmp.Or(path, lookup(environ, fileVariable))
	if path != "" && !l.readFile(path) {
		return Config{}, nil, l.err()
	}
	warnings = l.readEnvironment(environ)
	l.readFlags(flags)
	l.validate()
	if err := l.err(); err != nil {
		return Config{}, warnings, err
	}
	return l.config, warnings, nil
}

// Check judges the file at path by itself, without the environment, flags or a running daemon.
// It prints either its problems, one a line, or "path: ok", and returns the exit code: 1 or 0.
func Check(w io.Writer, path string) int {
	l := newLoader()
	if l.readFile(path) {
		l.validate()
	}
	if err := l.err(); err != nil {
		fmt.Fprintln(w, err)
		return 1
	}
	fmt.Fprintf(w, "%s: ok\n", path)
	return 0
}

// A place is where a value or a problem came from.
type place struct {
	name string // "FILE", "variable NAME", "flag --name", or empty for a value made in Go
	line int    // in the file, from 1; otherwise 0
}

func (p place) String() string {
	if p.line == 0 {
		return p.name
	}
	return p.name + ":" + strconv.Itoa(p.line)
}

type problem struct {
	place place
	text  string
}

func (p problem) Error() string {
	if p.place.name == "" {
		return p.text
	}
	return p.place.String() + ": " + p.text
}

// A given is a value as somebody wrote it.
type given struct {
	place place
	text  string
	shown string // the text as an error shows it
}

// A loader collects values and problems, from the weakest source to the strongest.
type loader struct {
	config   Config
	given    map[string]given // by key, the one that counts
	headers  map[string]place // of tenants, by name: where each begins
	problems []problem
}

// newLoader returns a loader that has the defaults.
func newLoader() *loader {
	l := &loader{given: make(map[string]given), headers: make(map[string]place)}
	for _, s := range settings {
		s.in(&l.config).Set(reflect.ValueOf(s.initialValue()))
	}
	return l
}

func (l *loader) readEnvironment(environ []string) (warnings []string) {
	known := make(map[string]setting, len(settings))
	for _, s := range settings {
		known[s.variable()] = s
	}
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if s, ok := known[name]; ok {
			l.set(s, given{place{name: "variable " + name}, text, quoted(text)})
		} else if strings.HasPrefix(name, variablePrefix) && !isOthersVariable(name) {
			warnings = append(warnings, unknownVariable(name))
		}
	}
	return warnings
}

// isOthersVariable reports whether a variable that is no setting has a known use: it names the
// file, was set by "coatcheck lock run" for its command, or steers the tests.
func isOthersVariable(name string) bool {
	return name == fileVariable ||
		name == variablePrefix+"FENCE" || name == variablePrefix+"LOCK" ||
		strings.HasPrefix(name, variablePrefix+"TEST_") ||
		strings.HasPrefix(name, variablePrefix+"DOCKER_")
}

func unknownVariable(name string) string {
	var names []string
	for _, s := range settings {
		names = append(names, strings.TrimPrefix(s.variable(), variablePrefix))
	}
	text := fmt.Sprintf("variable %s is no setting and has no effect", name)
	if near := nearest(strings.TrimPrefix(name, variablePrefix), names); near != "" {
		text += "; did you mean " + variablePrefix + near + "?"
	}
	return text
}

func (l *loader) readFlags(flags map[string]string) {
	for _, s := range settings {
		if text, ok := flags[s.flag()]; ok && s.flag() != "" {
			l.set(s, given{place{name: "flag --" + s.flag()}, text, quoted(text)})
		}
	}
}

// set makes a value the one that counts, or reports that it is badly written.
func (l *loader) set(s setting, g given) {
	value, err := s.kind.parse(g.text)
	if err != nil {
		l.refuse(s, g, err.Error())
		return
	}
	s.in(&l.config).Set(reflect.ValueOf(value))
	l.given[s.key] = g
}

// refuse reports a problem with a value: where, which key, the value and what is allowed.
func (l *loader) refuse(s setting, g given, why string) {
	l.report(g.place, "%s = %s: %s; allowed: %s", s.key, g.shown, why, s.allowed())
}

func (l *loader) report(at place, format string, args ...any) {
	l.problems = append(l.problems, problem{at, fmt.Sprintf(format, args...)})
}

// err returns the problems joined, those of the file first and in the order of its lines.
func (l *loader) err() error {
	slices.SortStableFunc(l.problems, func(a, b problem) int {
		return cmp.Compare(a.order(), b.order())
	})
	var all []error
	for _, p := range l.problems {
		all = append(all, p)
	}
	return errors.Join(all...)
}

func (p problem) order() int {
	if p.place.line == 0 {
		return math.MaxInt
	}
	return p.place.line
}

// lookup returns the value of a variable, the last one where it is there twice.
func lookup(environ []string, name string) (text string) {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			text = value
		}
	}
	return text
}

// quoted shows a text in quotes, on one line and not endlessly long.
func quoted(text string) string {
	const longest = 120
	if len(text) > longest {
		return strconv.Quote(text[:longest]) + "…"
	}
	return strconv.Quote(text)
}
