package resp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/config"
)

// closes fails unless the server closes the connection, and returns what it said before.
func (c *raw) closes() string {
	c.t.Helper()
	c.nc.SetReadDeadline(time.Now().Add(limit))
	said, err := io.ReadAll(c.r)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("the connection does not close: %v, after %.200q", err, said)
	}
	return string(said)
}

func TestConnectionsAreLimited(t *testing.T) {
	e := startEndpoint(t, func(c *config.Config) { c.Redis.Connections = 2 })
	first, second := dial(t, e.resp), dial(t, e.resp)
	first.expect("ping → +PONG")
	second.expect("ping → +PONG")
	if said := dial(t, e.resp).closes(); said != "-ERR max number of clients reached\r\n" {
		t.Errorf("the third was told %q", said)
	}
	first.nc.Close()
	eventually(t, "there is a place again", func() bool {
		nc, err := net.Dial("unix", e.resp)
		if err != nil {
			return false
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(limit))
		io.WriteString(nc, "PING\r\n")
		answer := make([]byte, 7)
		_, err = io.ReadFull(nc, answer)
		return err == nil && string(answer) == "+PONG\r\n"
	})
}

func TestCommandsAreLimited(t *testing.T) {
	e := startEndpoint(t, func(c *config.Config) { c.Redis.MaxArguments, c.Redis.MaxCommand = 16, 16<<10 })
	for _, test := range []struct{ sent, told string }{
		{"*17\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"*2\r\n$3\r\nGET\r\n$16385\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		{encode("SET", strings.Repeat("k", 10<<10), strings.Repeat("v", 10<<10)), "-ERR Protocol error: the command is too large\r\n"},
		{"not a command\x00\r\n*x\r\n", "-ERR unknown command 'not', with args beginning with: 'a' 'command' \r\n-ERR Protocol error: invalid multibulk length\r\n"},
	} {
		c := dial(t, e.resp)
		c.send(test.sent)
		if told := c.closes(); told != test.told {
			t.Errorf("%.60q: %q", test.sent, told)
		}
	}
	c := dial(t, e.resp)
	c.expect("set k " + strings.Repeat("v", 10<<10) + " → +OK")
	for range 16 {
		if r := c.do("APPEND", "k", strings.Repeat("v", 1<<10)); r.isError() {
			if want := "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"; r.String() != want {
				t.Errorf("APPEND: %v", r)
			}
			return
		}
	}
	t.Error("a value grows beyond the size of a command")
}

func TestAWebPageCannotSendCommands(t *testing.T) {
	e := startEndpoint(t)
	c := dial(t, e.resp)
	c.send("POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET k v\r\n")
	c.closes()
	c = dial(t, e.resp)
	c.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\nSET k v\r\n")
	c.closes()
	dial(t, e.resp).expect("exists k → :0")
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestAFloodOfHalfSentCommandsCannotGrowMemory: clients that send nearly all of a large command, and then nothing, are cut off
// when they take too much together; others are served on.
func TestAFloodOfHalfSentCommandsCannotGrowMemory(t *testing.T) {
	const unfinished = 4 << 20
	e := startEndpoint(t, func(c *config.Config) { c.Redis.Unfinished = unfinished })
	before := heap()
	half := "*2\r\n$3\r\nGET\r\n$1000000\r\n" + strings.Repeat("x", 999_000)
	cut := 0
	var open []net.Conn
	for range 60 {
		nc, err := net.Dial("unix", e.resp)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetWriteDeadline(time.Now().Add(limit))
		if _, err := io.WriteString(nc, half); err != nil {
			cut++
			continue
		}
		open = append(open, nc)
	}
	for _, nc := range open {
		nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := nc.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			cut++
		}
	}
	if cut < 50 {
		t.Errorf("%d of 60 were cut off", cut)
	}
	if grown := int64(heap()) - int64(before); grown > 3*unfinished {
		t.Errorf("memory grew by %d bytes, %d are allowed for commands", grown, unfinished)
	}
	dial(t, e.resp).expect("ping → +PONG")
}

// TestTransactionsCountAsUnfinished: what is queued between MULTI and EXEC is limited in the same way.
func TestTransactionsCountAsUnfinished(t *testing.T) {
	e := startEndpoint(t, func(c *config.Config) { c.Redis.Unfinished, c.Redis.MaxCommand = 1<<20, 512<<10 })
	value := strings.Repeat("v", 60_000)
	one := dial(t, e.resp)
	one.expect("multi → +OK")
	told := ""
	for range 12 {
		if told = one.do("SET", "k", value).String(); told != "+QUEUED" {
			break
		}
	}
	if told != "-ERR the transaction is too large (redis.max_command, redis.max_arguments)" {
		t.Errorf("one client: %s", told)
	}
	one.expect("exec → -EXECABORT Transaction discarded because of previous errors.")
	cut := 0
	for range 8 {
		c := dial(t, e.resp)
		c.expect("multi → +OK")
		for range 8 {
			_, err := io.WriteString(c.nc, encode("SET", "k", value))
			if err == nil {
				_, err = c.read()
			}
			if err != nil {
				cut++
				break
			}
		}
	}
	if cut == 0 {
		t.Error("nobody was cut off")
	}
}

func TestRepliesAreLimited(t *testing.T) {
	e := startEndpoint(t, func(c *config.Config) { c.Redis.OutputBuffer = 64 << 10 })
	c := dial(t, e.resp)
	large := "-ERR the reply would be larger than redis.output_buffer allows; ask for less at a time"
	random := func(i int) string { return strings.Repeat(fmt.Sprint(i, " "), 200) }
	for i := range 200 {
		c.do("SET", fmt.Sprintf("key:%d:%s", i, strings.Repeat("k", 400)), "v")
		c.do("HSET", "h", fmt.Sprint(i), random(i))
	}
	c.do("SET", "zeros", strings.Repeat("0", 60_000)) // some bytes, compressed
	many := []string{"MGET"}
	for range 1_000 {
		many = append(many, "zeros")
	}
	for _, command := range [][]string{{"KEYS", "*"}, {"HGETALL", "h"}, {"HVALS", "h"}, many} {
		if got := c.do(command...).String(); got != large {
			t.Errorf("%s: %.80s", command[0], got)
		}
	}
	c.expect("multi → +OK")
	for range 3 {
		c.expect("get zeros → +QUEUED")
	}
	c.expect("exec → " + large)
	c.expect("ping → +PONG")
}

// TestASlowReaderDoesNotGrowMemory: who asks and does not read is not answered further than the socket's buffers and one
// reply.
func TestASlowReaderDoesNotGrowMemory(t *testing.T) {
	e := startEndpoint(t)
	c := dial(t, e.resp)
	c.do("SET", "k", strings.Repeat("v", 100_000))
	before := heap()
	ask := strings.Repeat(encode("GET", "k"), 1_000)
	for range 20 {
		c.nc.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := io.WriteString(c.nc, ask); err != nil {
			break
		}
	}
	if grown := int64(heap()) - int64(before); grown > 8<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
	dial(t, e.resp).expect("ping → +PONG")
}

func TestIdleClientsAreDisconnected(t *testing.T) {
	e := startEndpoint(t, func(c *config.Config) { c.Redis.IdleTimeout = 100 * time.Millisecond })
	c := dial(t, e.resp)
	c.expect("ping → +PONG")
	if said := c.closes(); said != "" {
		t.Errorf("it was told %q", said)
	}
}

// TestFullMemory: the reply says so and how much, and the old value stays.
func TestFullMemory(t *testing.T) {
	e := startEndpoint(t, func(c *config.Config) { c.Memory.Limit, c.Memory.Eviction = 1<<20, "noeviction" })
	c := dial(t, e.resp)
	c.expect("set k old → +OK")
	large := make([]byte, 2<<20)
	rand.Read(large) // it cannot be compressed
	got := c.do("SET", "k", string(large)).String()
	if !strings.HasPrefix(got, "-OOM command not allowed when used memory > 'maxmemory'.") || !strings.Contains(got, "memory.limit") {
		t.Errorf("SET: %.200s", got)
	}
	c.expect(`get k → "old"`)
}

// TestStopAnswersWhatWasAsked and closes the connections and the socket.
func TestStop(t *testing.T) {
	var c *raw
	var socket string
	t.Run("a daemon", func(sub *testing.T) {
		socket = startEndpoint(sub).resp
		c = dial(t, socket)
		c.expect("set k v → +OK")
	})
	c.closes()
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestPipelinesAreAnsweredTogether(t *testing.T) {
	c := dial(t, startEndpoint(t).resp)
	c.send(strings.Repeat(encode("INCR", "n"), 100))
	for i := range 100 {
		if got := c.reply().String(); got != fmt.Sprintf(":%d", i+1) {
			t.Fatalf("answer %d is %s", i, got)
		}
	}
	c.nc.SetReadDeadline(time.Now().Add(limit))
	c.send(strings.Repeat(encode("PING"), 50))
	answers := make([]byte, 50*len("+PONG\r\n")+1)
	if n, err := c.nc.Read(answers); err != nil || n != len(answers)-1 {
		t.Errorf("the first of the answers had %d bytes, %v", n, err)
	}
}
