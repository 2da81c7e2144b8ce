package overload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/wire"
	"github.com/coatcheck/coatcheck/tests/tenants/daemon"
)

// TestTooManyConnectionsAreToldSo, and a flood of them does not become one of log lines.
func TestTooManyConnectionsAreToldSo(t *testing.T) {
	d := daemon.Start(t, "limits.connections = 10\nredis.connections = 10\nresp = 'unix:DIR/resp'\n[tenants.other]\nsocket = 'DIR/other'\n")
	first := crowd(t, d, "s", 9, greet)
	d.Dial("other").Ask("server.ping") // the sockets of all tenants count together
	const refused = 300
	crowd(t, d, "s", refused, func(nc net.Conn) error {
		defer nc.Close()
		if err := greet(nc); !strings.Contains(fmt.Sprint(err), "unavailable: 10 connections on this daemon are open, which is the limit (limits.connections)") {
			return fmt.Errorf("one too many was told: %w", err)
		}
		return nil
	})
	crowd(t, d, "resp", 10, func(net.Conn) error { return nil })
	daemon.Until(t, "the endpoint has ten", func() bool { return d.Metric("coatcheck_resp_connections") == 10 })
	crowd(t, d, "resp", refused, func(nc net.Conn) error {
		defer nc.Close()
		reply := make([]byte, 100)
		n, err := nc.Read(reply)
		if string(reply[:n]) != "-ERR max number of clients reached\r\n" {
			return fmt.Errorf("one too many was told %q, %w", reply[:n], err)
		}
		return nil
	})
	if n := strings.Count(d.Log(), "connection refused: too many"); n < 2 || n > 6 {
		t.Errorf("%d refusals made %d lines", 2*refused, n)
	}
	if n := d.Metric("coatcheck_connections_refused_total"); n != refused {
		t.Errorf("the metric counts %v", n)
	}
	first[0].Close()
	daemon.Until(t, "there is room again", func() bool { return d.Metric("coatcheck_connections") == 9 })
	d.Dial("s").Ask("server.ping")
}

// perIdle is how much memory a connection that says nothing may take, in bytes, kernel's not included. 16 KiB were measured, of which the
// stack of its goroutine is 6 KiB, and the most is garbage not yet collected.
const perIdle = 24 << 10

// TestTenThousandIdleConnections: each has sent and received 32 KiB before it fell silent.
func TestTenThousandIdleConnections(t *testing.T) {
	const n = 9_900 // the daemon's limit is 10,000
	d := daemon.Start(t, "")
	d.Dial("s").Ask("kv.set", "key", "k", "value", make([]byte, 32<<10))
	before := d.Resident()
	crowd(t, d, "s", n, func(nc net.Conn) error {
		if err := greet(nc); err != nil {
			return err
		}
		if _, err := nc.Write(request("kv.get", "key", "k", "bucket", "")); err != nil {
			return err
		}
		if err := frames(nc, 1); err != nil {
			return err
		}
		if _, err := nc.Write(request("kv.set", "key", "k", "value", make([]byte, 32<<10))); err != nil {
			return err
		}
		return frames(nc, 1)
	})
	each := (d.Resident() - before) / n
	t.Logf("%d bytes for each of %d idle connections", each, n)
	if each > perIdle {
		t.Errorf("an idle connection takes %d bytes, more than %d", each, perIdle)
	}
	d.Dial("s").Ask("kv.get", "key", "k")
}

// TestClientsThatNeverFinishAreCutOff: a thousand that send a byte now and then, within hello and within a message.
func TestClientsThatNeverFinishAreCutOff(t *testing.T) {
	d := daemon.Start(t, "limits.message_timeout = '2s'\nresp = 'unix:DIR/resp'\n")
	silent := crowd(t, d, "s", 100, func(nc net.Conn) error { return nil })
	slow := crowd(t, d, "s", 800, greet)
	redis := crowd(t, d, "resp", 100, func(nc net.Conn) error { return nil })
	frame, command := request("kv.get", "key", strings.Repeat("k", 1000)), daemon.Command("GET", strings.Repeat("k", 1000))
	began := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; d.Metric("coatcheck_connections") > 0 || d.Metric("coatcheck_resp_connections") > 0; i++ {
		for _, nc := range slow {
			nc.Write(frame[i : i+1]) // an error says that it was cut off
		}
		for _, nc := range redis {
			nc.Write([]byte{command[i]})
		}
		if time.Since(began) > daemon.Patience {
			t.Fatalf("after %v %v of them are still connected", time.Since(began), d.Metric("coatcheck_connections"))
		}
		<-tick.C
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("they were cut off after %v", took)
	}
	for name, c := range map[string]struct {
		nc   net.Conn
		want string
	}{
		"silent": {silent[0], "hello did not arrive whole within 2s"},
		"slow":   {slow[0], "a message that was begun did not arrive whole within 2s"},
	} {
		var e *wire.Error
		if err := frames(c.nc, 1); !errors.As(err, &e) || e.Code != wire.Protocol || e.Message != c.want {
			t.Errorf("the %s client is told %v", name, err)
		}
	}
	if reply, _ := io.ReadAll(redis[0]); !strings.Contains(string(reply), "has not arrived whole") {
		t.Errorf("the client of the Redis protocol is told %q", reply)
	}
	if n := strings.Count(d.Log(), "connection closed"); n > 6 {
		t.Errorf("1000 clients made %d lines", n)
	}
}

// announced is the head of a frame of n bytes, and a few of them.
func announced(n uint32) []byte {
	return append(binary.BigEndian.AppendUint32(nil, n), 0x94, 0, 2)
}

// TestAnnouncedBytesAreNotReserved: a thousand clients announce 16 MiB each and send a few bytes.
func TestAnnouncedBytesAreNotReserved(t *testing.T) {
	d := daemon.Start(t, "resp = 'unix:DIR/resp'\n")
	before := d.Resident()
	crowd(t, d, "s", 1000, func(nc net.Conn) error {
		if err := greet(nc); err != nil {
			return err
		}
		_, err := nc.Write(announced(16 << 20))
		return err
	})
	crowd(t, d, "resp", 1000, func(nc net.Conn) error {
		_, err := io.WriteString(nc, "*2\r\n$4\r\nECHO\r\n$16777000\r\nfew")
		return err
	})
	d.Dial("s").Ask("server.ping")
	if grown := d.Resident() - before; grown > 64<<20 {
		t.Errorf("the daemon grew by %d bytes", grown)
	}
}

// garbage is how much memory the daemon may have beside what it uses: what its collector leaves lying about at most
// (sidecar/app/gc.go), with what is freed but not yet given back.
const garbage = 160 << 20

// TestUnfinishedBytesOfATenantAreBounded: those above the bound are cut off and told why, and another tenant is not.
func TestUnfinishedBytesOfATenantAreBounded(t *testing.T) {
	const bound = 32 << 20
	half := make([]byte, 1<<20)
	for socket, head := range map[string]string{"s": string(hello()) + string(announced(16<<20)), "resp": "*2\r\n$4\r\nECHO\r\n$16000000\r\n"} {
		t.Run(socket, func(t *testing.T) {
			d := daemon.Start(t, "limits.unfinished = '32MiB'\nredis.unfinished = '32MiB'\nresp = 'unix:DIR/resp'\n[tenants.b]\nsocket = 'DIR/b'\n")
			before := d.Resident()
			conns := crowd(t, d, socket, 500, func(nc net.Conn) error {
				io.WriteString(nc, head)
				nc.Write(half) // an error says that it was cut off
				return nil
			})
			daemon.Until(t, "those above the bound are cut off", func() bool {
				return d.Metric(`coatcheck_tenant_refused_total{reason="unfinished",tenant="default"}`) >= 450
			})
			if grown := d.Resident() - before; grown > bound+garbage {
				t.Errorf("the daemon grew by %d bytes for %d that were sent", grown, 500*len(half))
			}
			d.Dial("b").Ask("kv.set", "key", "k", "value", make([]byte, 15<<20))
			for _, nc := range conns {
				nc.Close()
			}
			daemon.Until(t, "the rest has gone", func() bool { return d.Metric(`coatcheck_tenant_connections{tenant="default"}`) == 0 })
			d.Dial("s").Ask("kv.set", "key", "k", "value", make([]byte, 15<<20)) // what the others had is given back
			if n := strings.Count(d.Log(), "connection closed: too many unfinished"); n < 1 || n > 3 {
				t.Errorf("the log has %d lines of it", n)
			}
		})
	}
}

// TestAnswersThatNobodyReadsAreBounded for all clients of a tenant together, by both protocols.
func TestAnswersThatNobodyReadsAreBounded(t *testing.T) {
	const bound, size = 24 << 20, 4 << 20
	for socket, ask := range map[string]string{
		"resp": daemon.Command("GET", "k"),
		"s":    string(hello()) + string(request("kv.get", "key", "k")),
	} {
		t.Run(socket, func(t *testing.T) {
			d := daemon.Start(t, "limits.unread = '24MiB'\nredis.output_buffer = '8MiB'\nresp = 'unix:DIR/resp'\n[tenants.b]\nsocket = 'DIR/b'\n")
			for _, socket := range []string{"s", "b"} {
				c := d.Dial(socket)
				c.Ask("kv.set", "key", "k", "value", noise(size))
				c.Close()
			}
			before := d.Resident()
			const n = 200
			conns := crowd(t, d, socket, n, func(nc net.Conn) error {
				_, err := io.WriteString(nc, ask)
				return err
			})
			daemon.Until(t, "those above the bound are cut off", func() bool {
				return d.Metric(`coatcheck_tenant_refused_total{reason="unread",tenant="default"}`) >= n-bound/size
			})
			if grown := d.Resident() - before; grown > bound+garbage {
				t.Errorf("the daemon grew by %d bytes for answers of %d", grown, n*size)
			}
			if v := d.Dial("b").Ask("kv.get", "key", "k"); len(v.([]byte)) != size {
				t.Errorf("another tenant reads %d bytes", len(v.([]byte)))
			}
			for _, nc := range conns {
				nc.Close()
			}
			daemon.Until(t, "they have gone", func() bool { return d.Metric(`coatcheck_tenant_connections{tenant="default"}`) == 0 })
			if v := d.Dial("s").Ask("kv.get", "key", "k"); len(v.([]byte)) != size {
				t.Errorf("what the others had was not given back: %d bytes", len(v.([]byte)))
			}
			if n := strings.Count(d.Log(), "connection closed: too many answers wait for clients that do not read them"); n < 1 || n > 3 {
				t.Errorf("the log has %d lines of it", n)
			}
		})
	}
}

// TestManyWhoWaitForOneChange: each of a few clients waits 128 times for the same key, and reads nothing when it becomes large.
func TestManyWhoWaitForOneChange(t *testing.T) {
	const clients, waits, size = 4, 128, 15 << 20
	d := daemon.Start(t, "")
	writer := d.Dial("s")
	version := daemon.Field(t, writer.Ask("kv.wait", "key", "k"), "version")
	var all []byte
	for range waits {
		all = append(all, request("kv.wait", "key", "k", "version", version, "timeout_ms", 60_000)...)
	}
	crowd(t, d, "s", clients, func(nc net.Conn) error {
		if err := greet(nc); err != nil {
			return err
		}
		_, err := nc.Write(all)
		return err
	})
	daemon.Until(t, "all wait", func() bool { return d.Metric(`coatcheck_tenant_waiters{tenant="default"}`) == clients*waits })
	before := d.Resident()
	writer.Ask("kv.set", "key", "k", "value", make([]byte, size))
	daemon.Until(t, "one answer of each is made, and the others wait", func() bool {
		return d.Metric(`coatcheck_tenant_waiters{tenant="default"}`) == clients*(waits-1)
	})
	// The value, the message it came in, and for each client an answer, that grew once
	if grown := d.Resident() - before; grown > (4+3*clients)*size {
		t.Errorf("%d answers that nobody reads take %d MiB", clients*waits, grown>>20)
	}
	writer.Ask("server.ping")
}
