package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

const twoTenants = `
socket = "/run/coatcheck/main.sock"
[tenants.shop]
socket = "/run/coatcheck/shop.sock"
mode = "0600"
owner = "root"
group = "0"
allowed_uids = ["root", 1000, "33"]
memory_limit = "64MiB"
connections = 100
requests_per_second = 5_000
waiters = 20
[tenants.default]
waiters = 5
`

func TestTenantsOfAFile(t *testing.T) {
	c, warnings, err := Load(writeFile(t, twoTenants), nil, nil)
	if err != nil || len(warnings) != 0 {
		t.Fatal(warnings, err)
	}
	want := []Tenant{
		{
			Name: "shop", Socket: "/run/coatcheck/shop.sock", Mode: 0o600, Owner: "root", Group: "0", AllowedUIDs: UIDs{0, 1000, 33},
			MemoryLimit: 64 * MiB, Connections: 100, RequestsPerSecond: 5000, Waiters: 20,
		},
		{Name: "default", Mode: 0o660, Waiters: 5},
	}
	if !reflect.DeepEqual(c.Tenants, want) {
		t.Errorf("got  %+v\nwant %+v", c.Tenants, want)
	}
	if got := c.Tenant("default"); got.Waiters != 5 {
		t.Errorf("the default tenant is %+v", got)
	}
	if got := c.Tenant("nobody"); !reflect.DeepEqual(got, Tenant{Name: "nobody", Mode: 0o660}) {
		t.Errorf("one that no table names is %+v", got)
	}
	if err := c.Validate(); err != nil {
		t.Errorf("what was loaded is not valid: %v", err)
	}
}

func TestWaysToWriteATenant(t *testing.T) {
	for _, text := range []string{
		"[tenants.a]\nsocket = '/run/a'\nallowed_uids = [7]",
		"[tenants]\na = { socket = '/run/a', allowed_uids = ['7'] }",
		"tenants = { a = { socket = '/run/a', allowed_uids = '7' } }",
		"tenants.a.socket = '/run/a'\ntenants.a.allowed_uids = 7",
		"[tenants]\na.socket = '/run/a'\n'a'.allowed_uids = [7]",
	} {
		c, _, err := Load(writeFile(t, text), nil, nil)
		if want := []Tenant{{Name: "a", Socket: "/run/a", Mode: 0o660, AllowedUIDs: UIDs{7}}}; err != nil || !reflect.DeepEqual(c.Tenants, want) {
			t.Errorf("%s: got %+v, %v", text, c.Tenants, err)
		}
	}
}

func TestProblemsOfTenants(t *testing.T) {
	const a = "[tenants.a]\nsocket = '/run/a'\n"
	for text, parts := range map[string][]string{
		a + "connections = -1":                          {":3: tenants.a.connections = -1: out of range", "from 0 to 1000000"},
		a + "requests_per_second = 'many'":              {`:3: tenants.a.requests_per_second = "many"`, "not a whole number", "from 0 to 10000000"},
		a + "waiters = 2_000_000":                       {":3: tenants.a.waiters = 2_000_000: out of range", "from 0 to 1000000"},
		a + "memory_limit = '1GB'":                      {`:3: tenants.a.memory_limit = "1GB"`, "GiB"},
		a + "mode = 660":                                {":3: tenants.a.mode = 660", "in quotes", "octal"},
		a + "allowed_uids = ['root', 'no such one']":    {`:3: tenants.a.allowed_uids = [root,no such one]: there is no user "no such one"`, "names and numbers"},
		a + "allowed_uids = [-1]":                       {":3: tenants.a.allowed_uids = [-1]", "no user"},
		a + "allowed_uids = [true]":                     {":3: tenants.a.allowed_uids = […]", "names in quotes and numbers"},
		a + "allowed_uids = ['a,b']":                    {":3: tenants.a.allowed_uids = […]"},
		a + "owner = 'no such one'":                     {`:3: tenants.a.owner = "no such one": there is no such user`},
		a + "group = 'no such one'":                     {`:3: tenants.a.group = "no such one": there is no such group`},
		a + "sokcet = 1":                                {":3: unknown key tenants.a.sokcet = 1", "did you mean tenants.a.socket?", "allowed in [tenants.a]: socket, mode, owner"},
		a + "socket.x = 1":                              {":3:"},
		a + "[tenants.b]\nsocket = '/run/./a'":          {":4: tenants.b.socket", "the path of tenants.a.socket too", "no other setting"},
		"socket = '/run/a'\n" + a:                       {":3: tenants.a.socket", "the path of socket too"},
		"admin = 'unix:/run/a'\n" + a:                   {":3: tenants.a.socket", "the path of admin too"},
		"socket = '/run/a.new'\n" + a:                   {":3: tenants.a.socket", "it would collide with socket"},
		"socket = '/run/x'\nresp = 'unix:/run/x.new'":   {":2: resp", "it would collide with socket"},
		"socket = '/run/x'\nadmin = 'unix:/run/x'":      {":2: admin", "the path of socket too"},
		a + "[tenants.b]\nsocket = '/run/a.new'":        {":4: tenants.b.socket", "it would collide with tenants.a.socket"},
		"[tenants.a]\nwaiters = 1":                      {":1: tenants.a.socket = \"\": nobody can reach this tenant", "redis.users"},
		"[tenants.a]":                                   {":1: tenants.a.socket = \"\": nobody can reach this tenant"},
		"[tenants.a]\nsocket = 'unix:/run/a'":           {":2: tenants.a.socket = \"unix:/run/a\"", "absolute path"},
		"[tenants.a]\nsocket = '/" + long(103) + "'":    {":2: tenants.a.socket", "104 bytes", "at most 103"},
		"[tenants.default]\nsocket = '/run/a'":          {":2: tenants.default.socket = \"/run/a\"", "at the top of the file"},
		"[tenants.default]\nmode = '0666'":              {":2: tenants.default.mode = \"0666\"", "socket_mode"},
		"[tenants.default]\nowner = 'root'":             {":2: tenants.default.owner"},
		"\n[tenants.'a b']\nsocket = '/run/a'":          {`:2: [tenants."a b"]: a tenant cannot have this name`, "1 to 64 of"},
		"[tenants.'a.b']\nsokcet = '/run/a'":            {`:1: [tenants."a.b"]`, "cannot have this name"},
		"[tenants.'']\nsocket = '/run/a'":               {`:1: [tenants.""]`},
		"[tenants." + long(65) + "]":                    {":1: [tenants.", "cannot have this name"},
		"[tenants.a.b]\nsocket = '/run/a'":              {":1: unknown section [tenants.a.b]", "[tenants.NAME]"},
		"[[tenants.a]]\nsocket = '/run/a'":              {":1: [[tenants.a]] is a list", "written [tenants.a]"},
		"tenants = 5":                                   {":1: unknown key tenants = 5"},
		"[tenants]\na = 5":                              {":2: tenants.a = 5", "a section; write [tenants.a]"},
		"[tenant.a]\nsocket = '/run/a'":                 {":1: unknown section [tenant.a]", "[tenants.NAME]"},
		"limits.unfinished = '1MiB'":                    {":1: limits.unfinished", "max_frame would never fit"},
		"limits.unread = '1MiB'":                        {":1: limits.unread", "max_frame would never fit"},
		"resp = '127.0.0.1:1'\nlimits.unread = '32MiB'": {":2: limits.unread", "redis.output_buffer would never fit"},
	} {
		expectProblem(t, text, writeFile(t, text), nil, nil, parts)
	}
}

// TestTheRedisProtocolLetsNobodyBeDefaultWhoIsNot at the socket.
func TestTheRedisProtocolLetsNobodyBeDefaultWhoIsNot(t *testing.T) {
	const (
		a     = "[tenants.a]\nsocket = '/run/a'\n"
		uids  = "[tenants.default]\nallowed_uids = [7]\n"
		tcp   = "resp = '127.0.0.1:1'\n"
		unix  = "resp = 'unix:/run/r'\n"
		users = "redis.users = '/etc/users'\n"
	)
	for text, parts := range map[string][]string{
		tcp + uids:     {`:1: resp = "127.0.0.1:1"`, "whatever tenants.default.allowed_uids says", "set redis.users"},
		unix + uids:    {`:1: resp = "unix:/run/r"`, "whatever tenants.default.allowed_uids says", "set redis.users"},
		tcp + a:        {`:1: resp = "127.0.0.1:1"`, "each of the other tenants", "set redis.users, or use a Unix socket"},
		tcp + uids + a: {"allowed_uids says", "each of the other tenants"},
	} {
		expectProblem(t, text, writeFile(t, text), nil, nil, parts)
	}
	for _, text := range []string{
		tcp, unix, unix + a, unix + "[tenants.default]\nwaiters = 1\n" + a, uids + a, tcp + "[tenants.default]\nwaiters = 1\n",
		tcp + users + uids + a, unix + users + uids,
	} {
		if _, _, err := Load(writeFile(t, text), nil, nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestATenantOfRedisUsersNeedsNoSocket: its users have passwords.
func TestATenantOfRedisUsersNeedsNoSocket(t *testing.T) {
	if _, _, err := Load(writeFile(t, "redis.users = '/etc/users'\n[tenants.a]\nwaiters = 1"), nil, nil); err != nil {
		t.Error(err)
	}
}

func TestTenantsHaveNoVariables(t *testing.T) {
	_, warnings, err := Load("", []string{"COATCHECK_TENANTS_SHOP_WAITERS=1"}, nil)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "no setting") {
		t.Errorf("got %q, %v", warnings, err)
	}
}

func TestATenantMadeInGoIsValidated(t *testing.T) {
	for name, wrong := range map[string]Tenant{
		"cannot have this name":  {Name: "a b"},
		"out of range":           {Name: "a", Socket: "/run/a", Mode: 0o660, Waiters: -1},
		"nobody can reach":       {Name: "a", Mode: 0o660},
		"an absolute path, with": {Name: "a", Socket: "run/a", Mode: 0o660},
	} {
		c := Default()
		c.Tenants = []Tenant{wrong}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, want %q", wrong, err, name)
		}
	}
}

// TestTheExampleOfATenant takes the example's table into use.
func TestTheExampleOfATenant(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docsDirectory, "coatcheck.example.toml"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "#[tenants.NAME]")
	if !found {
		t.Fatal("the example has no tenant")
	}
	table = "[tenants.NAME]" + regexp.MustCompile(`(?m)^# ([a-z_]+ = )`).ReplaceAllString(table, "$1")
	c, _, err := Load(writeFile(t, "redis.users = '/etc/users'\n"+table), nil, nil)
	if want := []Tenant{newTenant("NAME")}; err != nil || !reflect.DeepEqual(c.Tenants, want) {
		t.Errorf("got %+v, %v", c.Tenants, err)
	}
	if n := strings.Count(table, " = "); n != len(tenantSettings) {
		t.Errorf("the example has %d settings, want %d", n, len(tenantSettings))
	}
}
