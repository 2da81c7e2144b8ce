package config

import (
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDefaults(t *testing.T) {
	want := Config{
		Socket:       "/run/coatcheck/coatcheck.sock",
		SocketMode:   0o660,
		LogLevel:     slog.LevelInfo,
		LogFormat:    "text",
		DrainTimeout: 5 * time.Second,
		Lock: Lock{
			Lease:      30 * time.Second,
			MaxHold:    10 * time.Minute,
			MaxWaiters: 64,
			MaxWait:    5 * time.Minute,
		},
		Limits:  Limits{MaxFrame: 16 * MiB, Connections: 10000, Unfinished: 256 * MiB, Unread: 256 * MiB, MessageTimeout: 30 * time.Second},
		Journal: Journal{Fsync: "everysec", Values: true, SnapshotAfter: 64 * MiB},
		Memory:  Memory{Eviction: "lru"},
		Redis: Redis{
			Connections: 10000, MaxArguments: 65536, MaxCommand: 16 * MiB, Unfinished: 256 * MiB, OutputBuffer: 64 * MiB,
		},
		Front:   Front{Timeout: time.Minute, MaxBody: 32 * MiB},
		Cluster: Cluster{Ack: "backup", AckTimeout: 50 * time.Millisecond, Minority: "refuse"},
	}
	if got := Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if err := Default().Validate(); err != nil {
		t.Errorf("the defaults are not valid: %v", err)
	}
}

func TestDurations(t *testing.T) {
	parses(t, parseDuration, map[string]time.Duration{
		"0": 0, "0s": 0, "30s": 30 * time.Second, "1m30s": 90 * time.Second, "500ms": 500 * time.Millisecond,
	})
	refuses(t, parseDuration, map[string]string{
		"30": `"30s"`, "1.5": "unit", "": "not a duration", "soon": "not a duration", "5 s": "not a duration", "1d": "not a duration",
	})
	writes(t, formatDuration, map[time.Duration]string{
		0: "0s", 10 * time.Minute: "10m", 24 * time.Hour: "24h", 90 * time.Second: "1m30s", 90 * time.Minute: "1h30m",
	})
}

func TestSizes(t *testing.T) {
	parses(t, parseSize, map[string]Size{
		"0": 0, "1000": 1000, "64KiB": 65536, "16MiB": 16 << 20, "1GiB": 1 << 30, "2 MiB": 2 << 20,
		"9223372036854775807": math.MaxInt64,
	})
	refuses(t, parseSize, map[string]string{
		"16MB": "unknown unit", "16M": "unknown unit", "MiB": "not a size", "": "not a size", "-1": "not a size",
		"1.5MiB": "not a size", "9223372036854775807GiB": "more bytes", "9223372036854775808": "not a size",
	})
	writes(t, Size.String, map[Size]string{
		0: "0", 1000: "1000", 64 * KiB: "64KiB", 16 * MiB: "16MiB", 4 * GiB: "4GiB", MiB + 1: "1048577",
	})
}

func TestModes(t *testing.T) {
	parses(t, parseMode, map[string]fs.FileMode{"0660": 0o660, "600": 0o600, "0o666": 0o666, "0": 0, "0777": 0o777})
	refuses(t, parseMode, map[string]string{"": "0660", "0888": "0660", "1777": "0660", "rw-rw----": "0660", "-1": "0660"})
	writes(t, formatMode, map[fs.FileMode]string{0o660: "0660", 0: "0000"})
}

func TestLevels(t *testing.T) {
	parses(t, parseLevel, map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	})
	refuses(t, parseLevel, map[string]string{"": "unknown", "verbose": "unknown", "INFO": "unknown", "info+1": "unknown"})
}

func TestNumbers(t *testing.T) {
	parses(t, parseInt, map[string]int{"64": 64, "-1": -1})
	refuses(t, parseInt, map[string]string{"": "whole number", "1.5": "whole number", "0x10": "whole number", "many": "whole number"})
}

func TestAddresses(t *testing.T) {
	parses(t, parseAddr, map[string]Addr{
		"":                        {},
		"127.0.0.1:8131":          {"tcp", "127.0.0.1:8131"},
		":80":                     {"tcp", ":80"},
		"[::1]:0":                 {"tcp", "[::1]:0"},
		"unix:/run/php/fpm.sock":  {"unix", "/run/php/fpm.sock"},
		"unix:///run/php/p/../s":  {"unix", "/run/php/s"},
		"unix:/" + long(102):      {"unix", "/" + long(102)},
		"localhost:9000":          {"tcp", "localhost:9000"},
		"unix:/run/with space.so": {"unix", "/run/with space.so"},
	})
	refuses(t, parseAddr, map[string]string{
		"/run/php/fpm.sock":  `"unix:/run/php/fpm.sock"`,
		"unix:fpm.sock":      "must begin with",
		"unix:":              "must begin with",
		"unix:/" + long(103): "104 bytes",
		"8131":               "not an address",
		"::1:80":             "not an address",
		"host:http":          "port",
		"host:65536":         "port",
		"host:":              "port",
	})
	writes(t, Addr.String, map[Addr]string{
		{}: "", {"unix", "/a"}: "unix:/a", {"tcp", "[::1]:1"}: "[::1]:1",
	})
}

func parses[T comparable](t *testing.T, parse func(string) (T, error), cases map[string]T) {
	t.Helper()
	for text, want := range cases {
		if got, err := parse(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
}

func refuses[T any](t *testing.T, parse func(string) (T, error), cases map[string]string) {
	t.Helper()
	for text, why := range cases {
		if got, err := parse(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: got %v, error %v; want an error with %q", text, got, err, why)
		}
	}
}

func writes[T comparable](t *testing.T, format func(T) string, cases map[T]string) {
	t.Helper()
	for value, want := range cases {
		if got := format(value); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func long(n int) string { return strings.Repeat("a", n) }

func TestEverySettingCanBeGivenInEveryWay(t *testing.T) {
	dir := t.TempDir()
	other := map[string]string{ // a valid value that is not the default, by key
		"socket": "/tmp/other.sock", "socket_mode": "0600", "socket_group": "0",
		"admin": "127.0.0.1:9001", "http": "127.0.0.1:8131", "fpm": "unix:/run/fpm.sock",
		"fpm_status": "127.0.0.1:9002", "docroot": dir, "log_level": "debug", "log_format": "json",
		"drain_timeout": "1s", "lock.lease": "1s", "lock.max_hold": "0", "lock.max_waiters": "2",
		"lock.max_wait": "1s", "limits.max_frame": "65536", "limits.connections": "3", "limits.unfinished": "1GiB", "limits.unread": "1GiB", "limits.message_timeout": "1s",
		"data": dir, "journal.fsync": "always", "journal.values": "false", "journal.key_file": "/etc/coatcheck/keys", "journal.snapshot_after": "1MiB", "memory.limit": "1MiB", "memory.tenant_limit": "1MiB", "memory.eviction": "noeviction",
		"front.timeout": "1s", "front.max_body": "1MiB",
		"resp": "127.0.0.1:6390", "redis.users": "/etc/coatcheck/users", "redis.connections": "3", "redis.max_arguments": "99",
		"redis.max_command": "1MiB", "redis.unfinished": "1MiB", "redis.output_buffer": "1MiB", "redis.idle_timeout": "1m",
		"cluster.bind": "127.0.0.1:7946", "cluster.sessions": "owner", "cluster.cluster_id": "shop", "cluster.name": "a",
		"cluster.advertise": "127.0.0.2:7946", "cluster.peer_bind": "127.0.0.1:7947", "cluster.peer_advertise": "127.0.0.2:7947",
		"cluster.join": "127.0.0.3:7946,db.example:7946", "cluster.expect": "3", "cluster.secret_file": "/etc/coatcheck/secret",
		"cluster.tls_cert": "/etc/coatcheck/cert", "cluster.tls_key": "/etc/coatcheck/key", "cluster.tls_ca": "/etc/coatcheck/ca",
		"cluster.ack": "owner", "cluster.ack_timeout": "1s", "cluster.minority": "serve",
	}
	for _, s := range settings {
		text, ok := other[s.key]
		if s.tag.Get("later") != "" {
			continue
		}
		if !ok {
			t.Errorf("%s: add a value to this test", s.key)
			continue
		}
		parsed, err := s.kind.parse(text)
		if err != nil {
			t.Errorf("%s: %v", s.key, err)
			continue
		}
		environ := companions(s, dir)
		ways := map[string]func() (Config, []string, error){
			"file": func() (Config, []string, error) {
				return Load(writeFile(t, s.key+` = "`+text+`"`), environ, nil)
			},
			"variable": func() (Config, []string, error) {
				return Load("", append(environ, s.variable()+"="+text), nil)
			},
		}
		if s.flag() != "" {
			ways["flag"] = func() (Config, []string, error) {
				return Load("", environ, parseFlags(t, "--"+s.flag(), text))
			}
		}
		for way, load := range ways {
			c, warnings, err := load()
			if err != nil || len(warnings) != 0 {
				t.Errorf("%s by %s: %v %v", s.key, way, warnings, err)
				continue
			}
			if got := s.in(&c).Interface(); !reflect.DeepEqual(got, parsed) {
				t.Errorf("%s by %s: got %v, want %v", s.key, way, got, parsed)
			}
		}
	}
}

// companions returns variables of what the setting needs beside it.
func companions(s setting, dir string) (environ []string) {
	needed := map[string]string{}
	switch {
	case s.key == "http":
		needed = map[string]string{"fpm": "unix:/run/fpm.sock", "docroot": dir}
	case s.section() == "cluster":
		needed = map[string]string{
			"cluster.bind": "127.0.0.1:1", "cluster.sessions": "owner", "cluster.cluster_id": "x", "cluster.advertise": "127.0.0.1:1",
			"cluster.peer_bind": "127.0.0.1:2", "cluster.secret_file": "/secret",
		}
		if strings.HasPrefix(s.name(), "tls_") {
			needed["cluster.tls_cert"], needed["cluster.tls_key"], needed["cluster.tls_ca"] = "/cert", "/key", "/ca"
		}
	}
	delete(needed, s.key)
	for key, value := range needed {
		environ = append(environ, setting{key: key}.variable()+"="+value)
	}
	return environ
}

func parseFlags(t *testing.T, arguments ...string) map[string]string {
	t.Helper()
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	given := RegisterFlags(fs)
	if err := fs.Parse(arguments); err != nil {
		t.Fatal(err)
	}
	return given
}

func TestFlagsAreTheOnesThatScriptsDependOn(t *testing.T) {
	var out strings.Builder
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	fs.SetOutput(&out)
	RegisterFlags(fs)
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	if got, want := strings.Join(names, " "), "admin data docroot fpm http log-level resp socket"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	fs.PrintDefaults()
	for _, want := range []string{"-socket PATH\n", "COATCHECK_LOG_LEVEL", "(default info)", "(default /run/coatcheck/coatcheck.sock)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %q:\n%s", want, out.String())
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]string{fileVariable: "the file's own variable"}
	for _, s := range settings {
		if first, ok := seen[s.variable()]; ok {
			t.Errorf("%s and %s share the variable %s", first, s.key, s.variable())
		}
		seen[s.variable()] = s.key
		if isOthersVariable(s.variable()) {
			t.Errorf("%s: the variable %s has another use", s.key, s.variable())
		}
		if isSection(s.key) || s.key == tenants {
			t.Errorf("%s is a setting and a section", s.key)
		}
	}
}

// TestTagsAreSound reads every tag once, so that a mistake in one cannot wait for a user.
func TestTagsAreSound(t *testing.T) {
	for _, s := range append(slices.Clone(settings), tenantSettings...) {
		if (s.tag.Get("min") == "") != (s.tag.Get("max") == "") {
			t.Errorf("%s has one bound only", s.key)
		}
		if s.tag.Get("min") != "" && s.bound("min") >= s.bound("max") {
			t.Errorf("%s: nothing is allowed", s.key)
		}
		if s.kind.noun == "a string" && s.allowed() == "a string" {
			t.Errorf("%s: the tags allow or oneof must say what is allowed", s.key)
		}
		if s.kind.noun == "an address" && s.tag.Get("accept") == "" {
			t.Errorf("%s: the tag accept is missing", s.key)
		}
	}
}

func TestLaterSourcesWin(t *testing.T) {
	file := writeFile(t, "socket = '/file'\nlog_level = 'warn'\nlog_format = 'json'\nlock.max_waiters = 1_000\n")
	environ := []string{"COATCHECK_SOCKET=/variable", "COATCHECK_LOG_LEVEL=error", "COATCHECK_CONFIG=/not/read", "HOME=/"}
	c, warnings, err := Load(file, environ, parseFlags(t, "--socket", "/flag"))
	if err != nil || len(warnings) != 0 {
		t.Fatal(warnings, err)
	}
	if c.Socket != "/flag" || c.LogLevel != slog.LevelError || c.LogFormat != "json" || c.Lock.MaxWaiters != 1000 || c.SocketMode != 0o660 {
		t.Errorf("got %+v", c)
	}
}

func TestTheVariableNamesTheFile(t *testing.T) {
	file := writeFile(t, "socket = '/file'")
	c, _, err := Load("", []string{"COATCHECK_CONFIG=" + file}, nil)
	if err != nil || c.Socket != "/file" {
		t.Errorf("got %q, %v", c.Socket, err)
	}
	if _, _, err := Load("", []string{"COATCHECK_CONFIG="}, nil); err != nil {
		t.Errorf("an empty variable names no file: %v", err)
	}
}

func TestAnEmptyValueTurnsOff(t *testing.T) {
	file := writeFile(t, "admin = '127.0.0.1:1'\ndata = '/var/lib/coatcheck'")
	c, _, err := Load(file, []string{"COATCHECK_ADMIN="}, parseFlags(t, "--data", ""))
	if err != nil || !c.Admin.IsZero() || c.Data != "" {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestWaysToWriteAFile(t *testing.T) {
	for _, text := range []string{
		"[lock]\nlease = '1s'",
		"lock.lease = '1s'",
		"lock = { lease = '1s' }",
		"[lock]\n'lease' = \"\"\"1s\"\"\"",
	} {
		c, _, err := Load(writeFile(t, text), nil, nil)
		if err != nil || c.Lock.Lease != time.Second {
			t.Errorf("%s: got %v, %v", text, c.Lock.Lease, err)
		}
	}
	c, _, err := Load(writeFile(t, "log-level = 'warn'\n[lock]\nmax_hold = 0\n[limits]\nmax_frame = 65536"), nil, nil)
	if err != nil || c.LogLevel != slog.LevelWarn || c.Lock.MaxHold != 0 || c.Limits.MaxFrame != 64*KiB {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestProblemsInAFile(t *testing.T) {
	for text, parts := range map[string][]string{
		"[lock]\nlease = '10ms'":           {":2: lock.lease", `"10ms"`, "from 100ms to 24h"},
		"[lock]\nlease = 30":               {":2: lock.lease = 30:", `write "30s"`, "from 100ms to 24h"},
		"[lock]\nlease = 1.5":              {":2: lock.lease = 1.5:", "unit"},
		"[lock]\nmax_waiters = 0":          {":2: lock.max_waiters = 0:", "from 1 to 65536"},
		"[lock]\nmax_waiters = 'many'":     {`lock.max_waiters = "many"`, "not a whole number", "from 1 to 65536"},
		"[lock]\nmax_waiters = true":       {"lock.max_waiters = true", "number", "from 1 to 65536"},
		"[lock]\nmax_waiters = [1]":        {"lock.max_waiters = [1]", "from 1 to 65536"},
		"limits.max_frame = '16MB'":        {":1: limits.max_frame", `"16MB"`, "MiB", "from 64KiB to 256MiB"},
		"limits.max_frame = '1GiB'":        {"limits.max_frame", `"1GiB"`, "out of range"},
		"socket_mode = 660":                {"socket_mode = 660", "in quotes", "octal"},
		"socket = ''":                      {`socket = ""`, "PHP cannot reach", "a path"},
		"socket = 'unix:/run/s'":           {"socket", "without \"unix:\""},
		"socket = '@name'":                 {"socket", "abstract"},
		"socket = '/" + long(103) + "'":    {"socket", "104 bytes", "at most 103"},
		"socket = {}":                      {"socket = {…}", "quotes"},
		"socket_group = 'no such group'":   {"socket_group", `"no such group"`, "no such group on this machine"},
		"resp = '0.0.0.0:6379'":            {":1: resp = \"0.0.0.0:6379\"", "nobody needs a password", "redis.users"},
		"resp = ':6379'":                   {":1: resp = \":6379\"", "other machines can reach it"},
		"journal.key_file = 'keys'":        {":1: journal.key_file = \"keys\"", "where the daemon is started", "absolute path"},
		"redis.users = 'users'":            {":1: redis.users = \"users\"", "where the daemon is started", "absolute path"},
		"admin = '0.0.0.0:80'":             {"admin", `"0.0.0.0:80"`, "other machines", "loopback", "unix:/path"},
		"admin = ':80'":                    {"admin", "other machines"},
		"admin = 'example.com:80'":         {"admin", "other machines"},
		"http = 'unix:/run/http'":          {"http", "cannot be a Unix socket", "host:port"},
		"http = '127.0.0.1:80'":            {"http", "set fpm too", "set docroot too"},
		"fpm = '/run/php.sock'":            {"fpm", `write "unix:/run/php.sock"`, "unix:/path"},
		"docroot = '/no/such'":             {"docroot", `"/no/such"`, "no such directory"},
		"log_level = 'loud'":               {"log_level", `"loud"`, "debug, info, warn, error"},
		"log_format = 'xml'":               {"log_format", `"xml"`, "text, json"},
		"log_level='info'\nlog-level='x'":  {":2: log_level", "already given on line 1"},
		"\n\nsokcet = '/x'":                {":3: unknown key sokcet = \"/x\"", "did you mean socket?", "[lock]"},
		"[lock]\nmax_hodl = '5m'":          {":2: unknown key lock.max_hodl = \"5m\"", "did you mean lock.max_hold?", "max_waiters"},
		"max_hold = '5m'":                  {":1: unknown key max_hold", "did you mean lock.max_hold?"},
		"lock = { leese = '5m' }":          {":1: unknown key lock.leese", "did you mean lock.lease?"},
		"'' = 1":                           {":1: unknown key  = 1"},
		"lock.lease.x = 1":                 {":1: unknown key lock.lease.x"},
		"whatever = {}":                    {":1: unknown key whatever = {…}", "allowed: socket"},
		"lock = 5":                         {":1: lock = 5", "lock is a section", "lease, max_hold"},
		"[locks]\nlease = '1s'":            {":1: unknown section [locks]", "did you mean [lock]?", ":2: unknown key locks.lease", "did you mean lock.lease?"},
		"[clutser]":                        {":1: unknown section [clutser]", "[lock], [journal], [limits], [memory], [redis], [front], [cluster]"},
		"[socket]\npath = '/x'":            {":1: [socket] is not a section", "write socket ="},
		"[[lock]]":                         {":1: [[lock]] is a list", "written [lock]"},
		"socket = /run/x":                  {":1: not valid TOML"},
		"x = 1\nx = 2":                     {":2: not valid TOML", "x"},
		"\n[lock\n":                        {":2: not valid TOML"},
		"socket = '" + long(500) + "\\n'":  {"socket = \"" + long(100), "…: the path has 502 bytes"},
		"socket = \"/a\\nb\"\nlog_level=1": {":2: log_level = 1: it must be text in quotes"},
	} {
		expectProblem(t, text, writeFile(t, text), nil, nil, parts)
	}
}

func TestProblemsElsewhere(t *testing.T) {
	expectProblem(t, "no file", "/no/such/file.toml", nil, nil, []string{"reading the configuration", "/no/such/file.toml", "no such file"})
	expectProblem(t, "variable", "", []string{"COATCHECK_LOCK_LEASE=30"}, nil,
		[]string{`variable COATCHECK_LOCK_LEASE: lock.lease = "30"`, `"30s"`, "from 100ms to 24h"})
	expectProblem(t, "empty variable", "", []string{"COATCHECK_LOCK_MAX_WAITERS="}, nil,
		[]string{`variable COATCHECK_LOCK_MAX_WAITERS: lock.max_waiters = ""`})
	expectProblem(t, "flag", "", nil, parseFlags(t, "--admin", "10.0.0.1:80"),
		[]string{`flag --admin: admin = "10.0.0.1:80"`, "loopback"})
	expectProblem(t, "overridden", writeFile(t, "log_level = 'loud'"), []string{"COATCHECK_LOG_LEVEL=info"}, nil,
		[]string{":1: log_level", `"loud"`})
}

func expectProblem(t *testing.T, name, file string, environ []string, flags map[string]string, parts []string) {
	t.Helper()
	c, _, err := Load(file, environ, flags)
	if err == nil {
		t.Errorf("%s: accepted", name)
		return
	}
	if !reflect.DeepEqual(c, Config{}) {
		t.Errorf("%s: settings in spite of an error: %+v", name, c)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: the error lacks %q:\n%v", name, part, err)
		}
	}
}

func TestEveryProblemIsReportedInTheOrderOfTheFile(t *testing.T) {
	file := writeFile(t, "log_format = 'xml'\nsokcet = '/x'\nadmin = '0.0.0.0:1'\n[lock]\nlease = 5\n")
	_, _, err := Load(file, []string{"COATCHECK_LOCK_MAX_WAIT=x"}, parseFlags(t, "--http", "127.0.0.1:1"))
	if err == nil {
		t.Fatal("accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{":1: log_format", ":2: unknown key", ":3: admin", ":5: lock.lease", "variable COATCHECK_LOCK_MAX_WAIT"}
	if len(lines) != len(want) { // http without fpm is not reported: it may be right once the rest is
		t.Fatalf("got %d problems, want %d:\n%v", len(lines), len(want), err)
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) {
			t.Errorf("problem %d: got %s, want %s", i, lines[i], want[i])
		}
	}
}

func TestUnknownVariablesAreWarnings(t *testing.T) {
	_, warnings, err := Load("", []string{
		"COATCHECK_LOCK_LEESE=secret", "COATCHECK_FENCE=7", "COATCHECK_TEST_SOCKET=/x", "COATCHECK_DOCKER_TEST=1",
		"COATCHECKER=1", "COATCHECK_ANYTHING_ELSE=1", "PATH=/bin",
	}, nil)
	if err != nil || len(warnings) != 2 {
		t.Fatalf("got %q, %v; want two warnings", warnings, err)
	}
	if w := warnings[0]; !strings.Contains(w, "COATCHECK_LOCK_LEESE") || !strings.Contains(w, "did you mean COATCHECK_LOCK_LEASE?") || strings.Contains(w, "secret") {
		t.Errorf("got %s", w)
	}
	if w := warnings[1]; !strings.Contains(w, "COATCHECK_ANYTHING_ELSE") || strings.Contains(w, "did you mean") {
		t.Errorf("got %s", w)
	}
}

func TestValidateSettingsMadeInGo(t *testing.T) {
	c := Default()
	c.Socket = filepath.Join(t.TempDir(), "s")
	c.Lock.Lease = time.Millisecond
	c.Admin = Addr{"tcp", "192.0.2.1:80"}
	err := c.Validate()
	for _, part := range []string{`lock.lease = "1ms": out of range`, `admin = "192.0.2.1:80"`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
}

func TestAClusterIsWholeOrNone(t *testing.T) {
	whole := map[string]string{
		"bind": "127.0.0.1:7946", "sessions": "owner", "cluster_id": "shop", "advertise": "127.0.0.1:7946",
		"peer_bind": "127.0.0.1:7947", "secret_file": "/etc/coatcheck/secret", "join": "127.0.0.1:7946,127.0.0.2:7946",
	}
	load := func(change map[string]string) error {
		settings := maps.Clone(whole)
		maps.Copy(settings, change)
		text := "[cluster]\n"
		for key, value := range settings {
			if value != "" {
				text += fmt.Sprintf("%s = %q\n", key, value)
			}
		}
		_, _, err := Load(writeFile(t, text), nil, nil)
		return err
	}
	if err := load(nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ key, value, want string }{
		{"bind", "", "cluster.bind"},
		{"sessions", "", "must be chosen"},
		{"sessions", "raft", "unknown word"},
		{"cluster_id", "", "needs a name"},
		{"cluster_id", "a b", "cannot have this name"},
		{"advertise", "", "never guessed"},
		{"peer_bind", "", "an address for their connections"},
		{"secret_file", "", "no cluster starts without a secret"},
		{"secret_file", "secret", "depends on where the daemon is started"},
		{"tls_cert", "/cert", "give all of tls_cert, tls_key and tls_ca"},
		{"join", "127.0.0.1", "cluster.join"},
		{"minority", "guess", "cluster.minority"},
	} {
		if err := load(map[string]string{c.key: c.value}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %q: the error lacks %q: %v", c.key, c.value, c.want, err)
		}
	}
}

func TestGroups(t *testing.T) {
	for group, want := range map[string]bool{"": true, "root": true, "0": true, "54321": true, "no such group": false, "-1": false} {
		if got := groupExists(group); got != want {
			t.Errorf("%q: got %v", group, got)
		}
	}
}

func TestCheckJudgesTheFileAlone(t *testing.T) {
	t.Setenv("COATCHECK_LOG_LEVEL", "loud") // would be an error if it were looked at
	good := writeFile(t, "socket = '/run/x.sock'\n")
	bad := writeFile(t, "log_level = 'loud'\nx = 1\n")
	later := writeFile(t, "[cluster]\nsessions = 'quorum'\n")
	for file, want := range map[string]struct {
		code int
		text string
	}{
		good: {0, good + ": ok\n"},
		bad: {1, bad + ":1: log_level = \"loud\": unknown level; allowed: one of debug, info, warn, error\n" +
			bad + ":2: unknown key x = 1; allowed: " + everything() + "\n"},
		later:           {1, later + ":2: cluster.sessions = \"quorum\": this version has no quorum mode; allowed: owner, or empty when there is no cluster\n"},
		"/no/such/file": {1, "reading the configuration: open /no/such/file: no such file or directory\n"},
	} {
		var out strings.Builder
		if code := Check(&out, file); code != want.code || out.String() != want.text {
			t.Errorf("%s: got %d %s\nwant %d %s", file, code, out.String(), want.code, want.text)
		}
	}
}

func TestNearest(t *testing.T) {
	for name, want := range map[string]string{
		"socket": "socket", "sockt": "socket", "fpm.status": "fpm_status", "fpm.timeout": "front.timeout", "log.level": "log_level",
		"cluster.session": "cluster.sessions", "": "", "x": "", long(5000): "",
	} {
		if got := nearest(name, keys()); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "fpm", 3}, {"fpm", "", 3}, {"fpm", "fps", 1}, {"fpm", "fppm", 1}, {"lease", "lese", 1}, {"lock", "clock", 1}, {"abc", "xyz", 3},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// FuzzLoad looks for a file, variable or flag that makes Load panic, or return settings that
// Validate refuses.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("socket = '/s'\n[lock]\nlease = '1s' # why\nmax_waiters = 1_0\n"), "1s", "127.0.0.1:1")
	f.Add([]byte("lock = { lease = 1.5, x = [1, {}] }\n[[front]]\n'' = 1\n[a.\"b.c\"]"), "", "unix:/x")
	f.Add([]byte("socket = \"\\u0000\"\nlock.lease.x = 1979-05-27\nsocket_mode = 0o660"), "30", "::")
	f.Fuzz(func(t *testing.T, text []byte, lease, admin string) {
		l := newLoader()
		l.readTOML("coatcheck.toml", text)
		l.readEnvironment([]string{"COATCHECK_LOCK_LEASE=" + lease, "COATCHECK_" + lease})
		l.readFlags(map[string]string{"admin": admin})
		l.validate()
		if l.err() != nil {
			return
		}
		if err := l.config.Validate(); err != nil {
			t.Errorf("loaded without an error, and yet: %v", err)
		}
	})
}
