package config

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/coatcheck/coatcheck/sidecar/cluster"
	"github.com/coatcheck/coatcheck/sidecar/socket"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
)

// A rule is a condition that the tags of a field cannot say.
type rule struct {
	key    string
	broken bool
	why    string
}

// rules are about one setting each.
func (c *Config) rules() []rule {
	return []rule{
		{"socket", c.Socket == "", "without a socket PHP cannot reach the daemon"},
		{"socket", len(c.Socket) > maxSocketPath, fmt.Sprintf("the path has %d bytes", len(c.Socket))},
		{"socket", strings.HasPrefix(c.Socket, "unix:"), `write the path alone, without "unix:"`},
		{"socket", strings.HasPrefix(c.Socket, "@"), "an abstract socket has no permissions"},
		{"socket_group", !groupExists(c.SocketGroup), "there is no such group on this machine"},
		{"docroot", c.Docroot != "" && !isDirectory(c.Docroot), "there is no such directory"},
		{"journal.key_file", relative(c.Journal.KeyFile), "it depends on where the daemon is started"},
		{"redis.users", relative(c.Redis.Users), "it depends on where the daemon is started"},
		{"cluster.sessions", c.Cluster.Sessions == "quorum", "this version has no quorum mode"},
		{"cluster.sessions", !slices.Contains([]string{"", "owner", "quorum"}, c.Cluster.Sessions), "unknown word"},
		{"cluster.cluster_id", c.Cluster.ClusterID != "" && !cluster.ValidName(c.Cluster.ClusterID), "a cluster cannot have this name"},
		{"cluster.name", c.Cluster.Name != "" && !cluster.ValidName(c.Cluster.Name), "a host cannot have this name"},
		{"cluster.secret_file", relative(c.Cluster.SecretFile), "it depends on where the daemon is started"},
		{"cluster.tls_cert", relative(c.Cluster.TLSCert), "it depends on where the daemon is started"},
		{"cluster.tls_key", relative(c.Cluster.TLSKey), "it depends on where the daemon is started"},
		{"cluster.tls_ca", relative(c.Cluster.TLSCA), "it depends on where the daemon is started"},
	}
}

func relative(path string) bool { return path != "" && !filepath.IsAbs(path) }

// clustering returns what a cluster needs. Each setting but bind is without effect while that is empty, so one that is given is a mistake.
func (c *Config) clustering() []rule {
	x := c.Cluster
	if x.Bind.IsZero() {
		return []rule{{"cluster.bind", !reflect.DeepEqual(x, Default().Cluster), "other settings of [cluster] are given, which have no effect without it"}}
	}
	return []rule{
		{"cluster.sessions", x.Sessions == "", "who decides on sessions and locks must be chosen: owner"},
		{"cluster.cluster_id", x.ClusterID == "", "a cluster needs a name"},
		{"cluster.advertise", x.Advertise.IsZero(), "it is never guessed: give the address at which the others reach cluster.bind"},
		{"cluster.peer_bind", x.PeerBind.IsZero(), "the daemons need an address for their connections"},
		{"cluster.secret_file", x.SecretFile == "", "no cluster starts without a secret; make one with: coatcheck cluster secret"},
		{"cluster.tls_cert", (x.TLSCert == "") != (x.TLSKey == "") || (x.TLSCert == "") != (x.TLSCA == ""), "give all of tls_cert, tls_key and tls_ca, or none"},
	}
}

// rules are about one setting of a tenant each.
func (t Tenant) rules() []rule {
	key := func(name string) string { return tenants + "." + t.Name + "." + name }
	all := []rule{
		{key("socket"), t.Socket != "" && !filepath.IsAbs(t.Socket), `write an absolute path, without "unix:" or "@"`},
		{key("socket"), len(t.Socket) > maxSocketPath, fmt.Sprintf("the path has %d bytes", len(t.Socket))},
		{key("owner"), t.Owner != "" && !userExists(t.Owner), "there is no such user on this machine"},
		{key("group"), !groupExists(t.Group), "there is no such group on this machine"},
	}
	if t.Name == DefaultTenant {
		const why = "the socket of the tenant default is the one at the top of the file: set socket, socket_mode and socket_group there"
		all = append(all,
			rule{key("socket"), t.Socket != "", why}, rule{key("mode"), t.Mode != newTenant("").Mode, why},
			rule{key("owner"), t.Owner != "", why}, rule{key("group"), t.Group != "", why})
	}
	return all
}

// DefaultTenant is whose socket the one at the top of the file is.
const DefaultTenant = "default"

// sockets returns a rule for each Unix socket whose path another setting has already, and for each tenant that nobody can reach.
func (c *Config) sockets() (all []rule) {
	taken := map[string]string{filepath.Clean(c.Socket): "socket"} // keys by paths
	take := func(key, path string) {
		path = filepath.Clean(path)
		first, twice := taken[path]
		all = append(all, rule{key, twice, "it is the path of " + first + " too"})
		for _, near := range []string{path + socket.BeingMade, strings.TrimSuffix(path, socket.BeingMade)} {
			if other, ok := taken[near]; ok && near != path {
				all = append(all, rule{key, true, "while a socket is made its name ends with " + socket.BeingMade + ": it would collide with " + other})
			}
		}
		if !twice {
			taken[path] = key
		}
	}
	if c.RESP.Network == "unix" {
		take("resp", c.RESP.Address)
	}
	if c.Admin.Network == "unix" {
		take("admin", c.Admin.Address)
	}
	for _, t := range c.Tenants {
		key := tenants + "." + t.Name + ".socket"
		if t.Socket != "" {
			take(key, t.Socket)
			continue
		}
		all = append(all, rule{key, t.Name != DefaultTenant && c.Redis.Users == "",
			"nobody can reach this tenant: give it a socket, or users of the Redis protocol (redis.users)"})
	}
	return all
}

// relations are about several settings. They are looked at only when each is right by itself.
func (c *Config) relations() []rule {
	return append(slices.Concat(c.sockets(), c.clustering(), c.strangers()), []rule{
		{"limits.unfinished", c.Limits.Unfinished < c.Limits.MaxFrame, "a message of limits.max_frame would never fit"},
		{"limits.unread", c.Limits.Unread < c.Limits.MaxFrame, "an answer of limits.max_frame would never fit"},
		{"limits.unread", !c.RESP.IsZero() && c.Limits.Unread < c.Redis.OutputBuffer, "a reply of redis.output_buffer would never fit"},
		{"http", !c.HTTP.IsZero() && c.FPM.IsZero(), "pages are served through php-fpm: set fpm too"},
		{"http", !c.HTTP.IsZero() && c.Docroot == "", "pages are served from a directory: set docroot too"},
		{"resp", c.RESP.Network == "tcp" && !c.RESP.isLoopback() && c.Redis.Users == "",
			"other machines can reach it, and nobody needs a password: set redis.users, or use a loopback address or a Unix socket"},
	}...)
}

// strangers returns a rule for each way in which the Redis protocol without users would let somebody be the tenant default who
// cannot be it at the socket. The socket's mode and group are those of a Unix socket of the Redis protocol too, so several tenants are
// kept apart by it as they are by theirs.
func (c *Config) strangers() []rule {
	open := !c.RESP.IsZero() && c.Redis.Users == ""
	others := slices.DeleteFunc(slices.Clone(c.Tenants), func(t Tenant) bool { return t.Name == DefaultTenant })
	return []rule{
		{"resp", open && len(c.Tenant(DefaultTenant).AllowedUIDs) > 0,
			"without redis.users everybody who reaches it belongs to the tenant default, whatever tenants.default.allowed_uids says: set redis.users, or remove allowed_uids"},
		{"resp", open && c.RESP.Network == "tcp" && len(others) > 0,
			"without redis.users every user of this machine, and so each of the other tenants, belongs to the tenant default there: set redis.users, or use a Unix socket"},
	}
}

// validate reports every value that is not allowed.
func (l *loader) validate() {
	all := slices.Clone(settings)
	for _, t := range l.config.Tenants {
		if !tenant.ValidName(t.Name) {
			l.report(place{}, "tenant %s: a tenant cannot have this name; allowed: %s", quoted(t.Name), tenant.NameRule)
			return
		}
		all = append(all, settingsOfTenant(t.Name)...)
	}
	for _, s := range all {
		value := s.in(&l.config)
		if why, wrong := s.complaint(value); wrong {
			l.refuse(s, l.origin(s, value), why)
		}
	}
	l.apply(l.config.rules())
	for _, t := range l.config.Tenants {
		l.apply(t.rules())
	}
	if len(l.problems) == 0 {
		l.apply(l.config.relations())
	}
}

func (l *loader) apply(rules []rule) {
	for _, r := range rules {
		if !r.broken {
			continue
		}
		s, ok := settingByKey(r.key)
		if !ok {
			panic("config: a rule for the unknown setting " + r.key)
		}
		l.refuse(s, l.origin(s, s.in(&l.config)), r.why)
	}
}

// origin returns the value as it was given, or as it would be written when nobody gave it.
func (l *loader) origin(s setting, value reflect.Value) given {
	if g, ok := l.given[s.key]; ok {
		return g
	}
	text := s.kind.format(value.Interface())
	return given{place: l.headers[s.tenant], text: text, shown: quoted(text)}
}

// groupExists accepts a name that this machine knows, any number, and the empty name.
func groupExists(group string) bool {
	if _, err := strconv.ParseUint(group, 10, 32); group == "" || err == nil {
		return true
	}
	_, err := user.LookupGroup(group)
	return err == nil
}

func userExists(name string) bool {
	_, err := UserID(name)
	return err == nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
