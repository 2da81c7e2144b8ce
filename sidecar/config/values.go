package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"os/user"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxSocketPath is the longest path of a Unix socket, in bytes: Linux takes 107, and a socket is made
// under its name with ".new" behind it.
const maxSocketPath = 103

// A kind is how the values of one Go type are written.
type kind struct {
	noun   string // what a value is, with its article
	parse  func(text string) (any, error)
	format func(value any) string
	bare   bool // a number that the file may give without quotes
	list   bool // the file may give an array
}

// newKind wraps the functions of one type so that kinds of all types fit in one table.
func newKind[T any](noun string, bare bool, parse func(string) (T, error), format func(T) string) kind {
	return kind{
		noun:   noun,
		bare:   bare,
		parse:  func(text string) (any, error) { return parse(text) },
		format: func(value any) string { return format(value.(T)) },
	}
}

// kindOf returns how values of the type are written, or false when the type is a section.
func kindOf(t reflect.Type) (kind, bool) {
	switch t {
	case reflect.TypeFor[string]():
		same := func(text string) string { return text }
		return newKind("a string", false, func(text string) (string, error) { return text, nil }, same), true
	case reflect.TypeFor[int]():
		return newKind("a whole number", true, parseInt, strconv.Itoa), true
	case reflect.TypeFor[bool]():
		return newKind(truth, false, parseBool, strconv.FormatBool), true
	case reflect.TypeFor[time.Duration]():
		return newKind("a duration", true, parseDuration, formatDuration), true
	case reflect.TypeFor[Size]():
		return newKind("a size", true, parseSize, Size.String), true
	case reflect.TypeFor[fs.FileMode]():
		return newKind("permission bits in octal, from 0000 to 0777", false, parseMode, formatMode), true
	case reflect.TypeFor[slog.Level]():
		return newKind("one of debug, info, warn, error", false, parseLevel, formatLevel), true
	case reflect.TypeFor[UIDs]():
		k := newKind("a list of names and numbers of users of this machine, or empty", true, parseUIDs, UIDs.String)
		k.list = true
		return k, true
	case reflect.TypeFor[List]():
		k := newKind("a list of host:port, or empty", false, parseList, List.String)
		k.list = true
		return k, true
	case reflect.TypeFor[Addr]():
		return newKind("an address", false, parseAddr, Addr.String), true
	}
	return kind{}, false
}

// truth is what a bool is; the file may give it without quotes.
const truth = "true or false"

func parseBool(text string) (bool, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New("neither true nor false")
}

func parseInt(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, errors.New("not a whole number in decimal")
	}
	return n, nil
}

// parseDuration accepts what Go writes, such as 1m30s. A number alone would leave the unit to
// guess, so it is refused, except 0.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if text != "" && strings.Trim(text, "0123456789.") == "" {
		return 0, fmt.Errorf(`a duration needs its unit: write "%[1]ss" for seconds or "%[1]sms" for milliseconds`, text)
	}
	return 0, errors.New(`not a duration such as "30s", "1m30s" or "500ms"`)
}

// formatDuration writes 10m where Go writes 10m0s.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Size is a number of bytes. It is written with a binary unit, such as 16MiB, or as plain bytes.
type Size int64

// The units of a Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

// String writes the size in the largest unit that divides it.
func (s Size) String() string {
	switch {
	case s != 0 && s%GiB == 0:
		return fmt.Sprintf("%dGiB", int64(s/GiB))
	case s != 0 && s%MiB == 0:
		return fmt.Sprintf("%dMiB", int64(s/MiB))
	case s != 0 && s%KiB == 0:
		return fmt.Sprintf("%dKiB", int64(s/KiB))
	}
	return strconv.FormatInt(int64(s), 10)
}

func parseSize(text string) (Size, error) {
	digits := strings.TrimRightFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	unit, err := sizeUnit(strings.TrimSpace(text[len(digits):]))
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return 0, errors.New(`not a size such as "16MiB", "64KiB" or a whole number of bytes`)
	}
	if n > math.MaxInt64/int64(unit) {
		return 0, errors.New("more bytes than can be counted")
	}
	return Size(n) * unit, nil
}

// sizeUnit refuses MB and M: they are 1000 based to some and 1024 based to others.
func sizeUnit(name string) (Size, error) {
	switch name {
	case "":
		return 1, nil
	case "KiB":
		return KiB, nil
	case "MiB":
		return MiB, nil
	case "GiB":
		return GiB, nil
	}
	return 0, fmt.Errorf("unknown unit %q: write KiB (1024 bytes), MiB, GiB, or plain bytes", name)
}

func parseMode(text string) (fs.FileMode, error) {
	bits, err := strconv.ParseUint(strings.TrimPrefix(text, "0o"), 8, 32)
	if err != nil || bits > uint64(fs.ModePerm) {
		return 0, errors.New(`not permission bits such as "0660"`)
	}
	return fs.FileMode(bits), nil
}

func formatMode(mode fs.FileMode) string { return fmt.Sprintf("%04o", uint32(mode)) }

func parseLevel(text string) (slog.Level, error) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if text == formatLevel(level) {
			return level, nil
		}
	}
	return 0, errors.New("unknown level")
}

func formatLevel(level slog.Level) string { return strings.ToLower(level.String()) }

// UIDs are numbers of users.
type UIDs []int

// String writes them with commas between them.
func (u UIDs) String() string {
	var all []string
	for _, uid := range u {
		all = append(all, strconv.Itoa(uid))
	}
	return strings.Join(all, ",")
}

// parseUIDs accepts names that this machine knows and numbers, with commas between them.
func parseUIDs(text string) (UIDs, error) {
	if text == "" {
		return nil, nil
	}
	var uids UIDs
	for name := range strings.SplitSeq(text, ",") {
		uid, err := UserID(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		uids = append(uids, uid)
	}
	return uids, nil
}

// List is some addresses as host:port.
type List []string

// String writes them with commas between them.
func (l List) String() string { return strings.Join(l, ",") }

// parseList accepts addresses with commas between them.
func parseList(text string) (List, error) {
	if text == "" {
		return nil, nil
	}
	var list List
	for address := range strings.SplitSeq(text, ",") {
		a, err := parseAddr(strings.TrimSpace(address))
		if err != nil {
			return nil, err
		}
		if a.Network != "tcp" {
			return nil, fmt.Errorf("%s is not host:port", quoted(address))
		}
		list = append(list, a.Address)
	}
	return list, nil
}

// UserID returns the number of a user, given by name or number.
func UserID(name string) (int, error) {
	if uid, err := strconv.ParseUint(name, 10, 32); err == nil {
		return int(uid), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("there is no user %s on this machine", quoted(name))
	}
	return strconv.Atoi(u.Uid)
}

// Addr is where to listen or whom to call, in the two words that net.Listen and net.Dial take:
// "unix" and a path, or "tcp" and host:port. The zero Addr means off.
type Addr struct {
	Network string
	Address string
}

// IsZero reports whether there is no address: whatever it is for is off.
func (a Addr) IsZero() bool { return a == Addr{} }

// String returns the address as it is written in the file: unix:/path, host:port or nothing.
func (a Addr) String() string {
	if a.Network == "unix" {
		return "unix:" + a.Address
	}
	return a.Address
}

func parseAddr(text string) (Addr, error) {
	if text == "" {
		return Addr{}, nil
	}
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		return parseUnixAddr(path)
	}
	if strings.HasPrefix(text, "/") {
		return Addr{}, fmt.Errorf(`a path needs "unix:" before it: write "unix:%s"`, text)
	}
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return Addr{}, errors.New(`not an address such as "127.0.0.1:8131", "[::1]:8131" or "unix:/run/name.sock"`)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return Addr{}, errors.New("the port is not a number from 0 to 65535")
	}
	return Addr{Network: "tcp", Address: text}, nil
}

// parseUnixAddr accepts unix:/path and unix:///path, as PHP writes it.
func parseUnixAddr(path string) (Addr, error) {
	if !filepath.IsAbs(path) {
		return Addr{}, errors.New(`the path after "unix:" must begin with "/"`)
	}
	path = filepath.Clean(path)
	if len(path) > maxSocketPath {
		return Addr{}, fmt.Errorf("the path has %d bytes, a Unix socket's path at most %d", len(path), maxSocketPath)
	}
	return Addr{Network: "unix", Address: path}, nil
}

// complaint says why the address is not of one of the accepted forms, if it is not.
func (a Addr) complaint(forms string) (text string, wrong bool) {
	accepted := strings.Fields(forms)
	switch {
	case a.IsZero(), slices.Contains(accepted, a.Network):
		return "", false
	case a.Network == "unix":
		return "it cannot be a Unix socket", true
	case slices.Contains(accepted, "loopback"):
		return "whoever reaches it needs no password, so it must not be reachable from other machines", !a.isLoopback()
	}
	return "unknown network", true
}

func (a Addr) isLoopback() bool {
	host, _, err := net.SplitHostPort(a.Address)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// acceptedForms says in words what Addr.complaint lets pass.
func acceptedForms(forms string) string {
	inWords := map[string]string{
		"unix":     "unix:/path",
		"tcp":      "host:port",
		"loopback": "host:port with a loopback host (127.0.0.1, [::1] or localhost)",
	}
	var words []string
	for _, form := range strings.Fields(forms) {
		words = append(words, inWords[form])
	}
	return strings.Join(append(words, "empty"), ", or ")
}
