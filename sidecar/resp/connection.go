package resp

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/locker"
)

func planNothing(*conn, *call) failure { return "" }

func planPing(_ *conn, q *call) failure {
	if len(q.args) > 2 {
		return wrongArity(q.cmd.name)
	}
	return ""
}

func replyPing(c *conn, q *call) {
	if len(q.args) == 2 {
		c.w.bulk(q.args[1])
		return
	}
	c.w.simple("PONG")
}

func replyEcho(c *conn, q *call) { c.w.bulk(q.args[1]) }

// databases is how many databases there are. They cost nothing: a database is a name of a bucket.
const databases = 1 << 16

// planSelect changes the bucket, for the commands behind it in the same plan too.
func planSelect(c *conn, q *call) failure {
	n, ok := parseInt(q.args[1])
	switch {
	case !ok:
		return errNotInteger
	case n < 0 || n >= databases:
		return errIndex
	}
	c.selectDB(int(n))
	return ""
}

func (c *conn) selectDB(n int) {
	c.db, c.space.Bucket = n, ""
	if n > 0 {
		c.space.Bucket = strconv.Itoa(n)
	}
}

func runQuit(c *conn, _ [][]byte) {
	c.w.ok()
	c.quit = true
}

// runReset makes the connection as it was at first.
func runReset(c *conn, _ [][]byte) {
	c.multi, c.name, c.w.resp3 = nil, "", false
	c.selectDB(0)
	if !c.s.login.open() {
		c.authed = false
		c.in.limits = unknownLimits
	}
	c.w.simple("RESET")
}

// runAuth answers AUTH password and AUTH user password.
func runAuth(c *conn, args [][]byte) {
	user, password := defaultUser, args[len(args)-1]
	switch len(args) {
	case 2:
		if c.s.login.open() {
			c.w.fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
			return
		}
	case 3:
		user = string(args[1])
	default:
		c.w.fail(errSyntax)
		return
	}
	if f := c.authenticate(user, password); f != "" {
		c.w.fail(f)
		return
	}
	c.w.ok()
}

// maxWrong is how many wrong passwords a client may send until its connection is closed.
const maxWrong = 5

// authenticate makes the connection one of a user. Without users everybody is the default one, whatever the password.
func (c *conn) authenticate(user string, password []byte) failure {
	if c.s.login.open() {
		if user != defaultUser {
			return errWrongPass
		}
		return ""
	}
	c.turn.Leave() // the check takes long
	name, f := c.s.login.check(user, password, c.abandoned)
	c.turn.Enter()
	switch f {
	case "":
		return c.welcome(user, name)
	case errWrongPass:
		if unlogged, now := c.s.wrong.Now(time.Now()); now {
			c.s.cfg.Log.Warn("password refused", "resp", c.s.cfg.Address, "user", locker.Short(user),
				"client", c.nc.RemoteAddr().String(), "unlogged", unlogged)
		}
		c.wrong++
		c.quit = c.wrong >= maxWrong
	case errStopping, errGone:
		c.quit = true
	}
	return f
}

// runHello answers HELLO version, with AUTH user password and SETNAME name.
func runHello(c *conn, args [][]byte) {
	resp3, options := c.w.resp3, args[1:]
	if len(options) > 0 {
		version, ok := parseInt(options[0])
		switch {
		case !ok:
			c.w.fail(errNotIntProto)
			return
		case version != 2 && version != 3:
			c.w.fail(errBadProto)
			return
		}
		resp3, options = version == 3, options[1:]
	}
	name := c.name
	for len(options) > 0 {
		switch {
		case is(options[0], "auth") && len(options) >= 3:
			if f := c.authenticate(string(options[1]), options[2]); f != "" {
				c.w.fail(f)
				return
			}
			options = options[3:]
		case is(options[0], "setname") && len(options) >= 2:
			if !isName(options[1]) {
				c.w.fail(errClientName)
				return
			}
			name, options = string(options[1]), options[2:]
		default:
			c.w.fail(failure("ERR Syntax error in HELLO option '" + printable(options[0]) + "'"))
			return
		}
	}
	if !c.authed {
		c.w.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	c.name, c.w.resp3 = name, resp3
	c.replyHello()
}

func (c *conn) replyHello() {
	version := int64(2)
	if c.w.resp3 {
		version = 3
	}
	c.w.mapping(7)
	c.w.bulkText("server")
	c.w.bulkText("redis")
	c.w.bulkText("version")
	c.w.bulkText(redisVersion)
	c.w.bulkText("proto")
	c.w.int(version)
	c.w.bulkText("id")
	c.w.int(c.id)
	c.w.bulkText("mode")
	c.w.bulkText("standalone")
	c.w.bulkText("role")
	c.w.bulkText("master")
	c.w.bulkText("modules")
	c.w.array(0)
}

const errClientName failure = "ERR Client names cannot contain spaces, newlines or special characters."

// maxName is the length of the longest client name: nothing else bounds what a connection keeps of it.
const maxName = 1 << 10

// isName says whether a client may call itself so.
func isName(b []byte) bool {
	if len(b) > maxName {
		return false
	}
	for _, c := range b {
		if c < '!' || c > '~' {
			return false
		}
	}
	return true
}

// runClient answers the subcommands of CLIENT that clients send when they connect, and the harmless ones.
func runClient(c *conn, args [][]byte) {
	sub, rest := args[1], args[2:]
	switch {
	case is(sub, "id") && len(rest) == 0:
		c.w.int(c.id)
	case is(sub, "getname") && len(rest) == 0:
		c.w.bulkOrNull([]byte(c.name), c.name != "")
	case is(sub, "setname") && len(rest) == 1:
		if !isName(rest[0]) {
			c.w.fail(errClientName)
			return
		}
		c.name = string(rest[0])
		c.w.ok()
	case is(sub, "setinfo") && len(rest) == 2:
		c.w.ok()
	case is(sub, "no-evict") && len(rest) == 1, is(sub, "no-touch") && len(rest) == 1:
		c.w.ok()
	case is(sub, "info") && len(rest) == 0:
		c.w.text(c.info())
	case isAny(sub, "id", "getname", "setname", "setinfo", "no-evict", "no-touch", "info"):
		c.w.fail(wrongArity("client|" + strings.ToLower(string(sub))))
	default:
		c.w.fail(unknownSubcommand("client", sub))
	}
}

func isAny(arg []byte, words ...string) bool {
	for _, word := range words {
		if is(arg, word) {
			return true
		}
	}
	return false
}

// info describes the connection in one line.
func (c *conn) info() string {
	version := 2
	if c.w.resp3 {
		version = 3
	}
	return fmt.Sprintf("id=%d addr=%s laddr=%s name=%s db=%d multi=%d user=%s resp=%d\n",
		c.id, c.nc.RemoteAddr(), c.s.cfg.Address, c.name, c.db, c.multi.queued(), c.user, version)
}
