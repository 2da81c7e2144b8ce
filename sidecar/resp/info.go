package resp

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// redisVersion is the version of Redis whose commands and words are followed.
const redisVersion = "7.0.15"

// sections are the sections of INFO, in order.
var sections = []struct {
	name  string
	write func(*conn, *strings.Builder) failure
}{
	{"server", infoServer},
	{"clients", infoClients},
	{"memory", infoMemory},
	{"stats", infoStats},
	{"replication", infoReplication},
	{"keyspace", infoKeyspace},
}

// runInfo answers INFO, with the names of sections.
func runInfo(c *conn, args [][]byte) {
	var b strings.Builder
	for _, s := range sections {
		if !wanted(args[1:], s.name) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		fmt.Fprintf(&b, "# %s\r\n", strings.ToUpper(s.name[:1])+s.name[1:])
		if f := s.write(c, &b); f != "" {
			c.w.fail(f)
			return
		}
	}
	c.w.text(b.String())
}

func wanted(names [][]byte, section string) bool {
	for _, name := range names {
		if isAny(name, section, "default", "all", "everything") {
			return true
		}
	}
	return len(names) == 0
}

func infoServer(c *conn, b *strings.Builder) failure {
	uptime := int64(time.Since(c.s.started).Seconds())
	fmt.Fprintf(b, "redis_version:%s\r\nredis_mode:standalone\r\ncoatcheck_version:%s\r\nprocess_id:%d\r\nuptime_in_seconds:%d\r\nuptime_in_days:%d\r\n",
		redisVersion, c.s.cfg.Version, os.Getpid(), uptime, uptime/86400)
	return ""
}

func infoClients(c *conn, b *strings.Builder) failure {
	fmt.Fprintf(b, "connected_clients:%d\r\nmaxclients:%d\r\n", c.tenant.Connections.Used(), c.maxClients())
	return ""
}

// maxClients is how many clients the tenant may have.
func (c *conn) maxClients() int64 {
	if own := c.tenant.Connections.Limit(); own > 0 {
		return min(own, c.s.cfg.Connections.Limit())
	}
	return c.s.cfg.Connections.Limit()
}

func infoMemory(c *conn, b *strings.Builder) failure {
	stats, f := c.stats()
	if f == "" {
		fmt.Fprintf(b, "used_memory:%d\r\nmaxmemory:%d\r\n", stats.Bytes, stats.Limit)
	}
	return f
}

func infoStats(c *conn, b *strings.Builder) failure {
	stats, f := c.stats()
	if f == "" {
		fmt.Fprintf(b, "total_commands_processed:%d\r\nevicted_keys:%d\r\n", c.tenant.Requests(), stats.Evicted)
	}
	return f
}

// stats counts what the tenant has.
func (c *conn) stats() (store.Stats, failure) {
	r, err := c.client.Do(context.Background(), &store.Command{Op: store.OpStats, Space: store.Space{Tenant: c.tenant.Name}})
	if err != nil {
		return store.Stats{}, undecided(err)
	}
	return r.Stats, ""
}

func infoReplication(_ *conn, b *strings.Builder) failure {
	b.WriteString("role:master\r\nconnected_slaves:0\r\n")
	return ""
}

// infoKeyspace counts the values of the tenant's numbered buckets.
func infoKeyspace(c *conn, b *strings.Builder) failure {
	spaces, f := c.spaces()
	for _, s := range spaces {
		name := s.Space.Bucket
		if name == "" {
			name = "0"
		}
		if _, numbered := parseInt([]byte(name)); numbered && s.Values > 0 {
			fmt.Fprintf(b, "db%s:keys=%d,expires=%d,avg_ttl=0\r\n", name, s.Values, s.Expiring)
		}
	}
	return f
}

// runConfig answers CONFIG GET pattern. Nothing can be set: the daemon's file and flags do that.
func runConfig(c *conn, args [][]byte) {
	switch {
	case is(args[1], "get") && len(args) > 2:
		c.replyConfig(args[2:])
	case is(args[1], "resetstat") && len(args) == 2:
		c.w.ok()
	case is(args[1], "get"):
		c.w.fail(wrongArity("config|get"))
	case is(args[1], "set"):
		c.w.fail("ERR CONFIG SET is not served: settings are in the daemon's configuration file")
	default:
		c.w.fail(unknownSubcommand("config", args[1]))
	}
}

func (c *conn) replyConfig(patterns [][]byte) {
	stats, f := c.stats()
	if f != "" {
		c.w.fail(f)
		return
	}
	settings := [][2]string{
		{"appendonly", "no"},
		{"databases", fmt.Sprint(databases)},
		{"maxclients", fmt.Sprint(c.maxClients())},
		{"maxmemory", fmt.Sprint(stats.Limit)},
		{"proto-max-bulk-len", fmt.Sprint(c.s.cfg.MaxCommand)},
		{"save", ""},
		{"timeout", fmt.Sprint(int64(c.s.cfg.IdleTimeout.Seconds()))},
	}
	m := matcher{onward: c.onward}
	asked := make(map[string]bool)
	for _, pattern := range patterns {
		if len(pattern) > maxPattern {
			c.w.fail(errLongPattern)
			return
		}
		m.pattern = bytes.ToLower(pattern)
		for _, s := range settings {
			asked[s[0]] = asked[s[0]] || m.match(s[0])
		}
	}
	if m.stopped != "" {
		c.w.fail(m.stopped)
		return
	}
	found := slices.DeleteFunc(settings, func(s [2]string) bool { return !asked[s[0]] })
	c.w.mapping(len(found))
	for _, s := range found {
		c.w.bulkText(s[0])
		c.w.bulkText(s[1])
	}
}
