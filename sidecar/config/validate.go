package config

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
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
		{"journal.key_file", c.Journal.KeyFile != "" && !filepath.IsAbs(c.Journal.KeyFile), "it depends on where the daemon is started"},
		{"redis.users", c.Redis.Users != "" && !filepath.IsAbs(c.Redis.Users), "it depends on where the daemon is started"},
	}
}

// relations are about several settings. They are looked at only when each is right by itself.
func (c *Config) relations() []rule {
	return []rule{
		{"http", !c.HTTP.IsZero() && c.FPM.IsZero(), "pages are served through php-fpm: set fpm too"},
		{"http", !c.HTTP.IsZero() && c.Docroot == "", "pages are served from a directory: set docroot too"},
		{"resp", c.RESP.Network == "tcp" && !c.RESP.isLoopback() && c.Redis.Users == "",
			"other machines can reach it, and nobody needs a password: set redis.users, or use a loopback address or a Unix socket"},
	}
}

// validate reports every value that is not allowed.
func (l *loader) validate() {
	for _, s := range settings {
		value := s.in(&l.config)
		if why, wrong := s.complaint(value); wrong {
			l.refuse(s, l.origin(s, value), why)
		}
	}
	l.apply(l.config.rules())
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
	return given{text: text, shown: quoted(text)}
}

// groupExists accepts a name that this machine knows, any number, and the empty name.
func groupExists(group string) bool {
	if _, err := strconv.ParseUint(group, 10, 32); group == "" || err == nil {
		return true
	}
	_, err := user.LookupGroup(group)
	return err == nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
