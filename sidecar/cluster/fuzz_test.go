package cluster

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// FuzzPeer has a peer that was let in send anything, as who asks and as who answers.
func FuzzPeer(f *testing.F) {
	f.Add(append(encoded(f, frame{question, 1, []byte("abc")}), encoded(f, frame{ordered, 2, nil})...))
	f.Add(append(encoded(f, frame{notice, 1, []byte(`{"members":[{"id":"x"}]}`)}), encoded(f, frame{kind: ping})...))
	f.Add(append(encoded(f, frame{answer, 1, []byte("abc")}), encoded(f, frame{failure, 1, []byte("why")})...))
	f.Add([]byte{0, 0, 0, 9, byte(refusal), 0, 0, 0, 0, 0, 0, 0, 1})
	cfg, _ := testConfig(1)
	cfg, err := cfg.withDefaults()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, asks := range []bool{true, false} {
			client, server := pipe(t, &cfg)
			done := make(chan struct{})
			if asks {
				c := &Cluster{cfg: cfg, set: setOf("a"), touched: make(chan struct{}, 1)}
				c.trust.Store(server.trust)
				c.Handle(serving(echo))
				s := newServer(c, nil)
				go func() { defer close(done); s.converse(t.Context(), s.enter(server), server) }()
				go drain(client)
				speak(client, b)
			} else {
				a := newAsker(client, "", 1)
				put(t, a, question, 1)
				go func() { defer close(done); a.run() }()
				go drain(server)
				speak(server, b)
			}
			<-done
		}
	})
}

// drain reads what a peer writes.
func drain(c *conn) {
	for {
		if _, err := c.in.Discard(1); err != nil {
			return
		}
	}
}

// speak sends bytes, and ends the connection.
func speak(c *conn, b []byte) {
	c.tls.NetConn().SetWriteDeadline(time.Now().Add(patience))
	_, _ = c.tls.Write(b) // the other side may have ended it
	c.end(errors.New("the test is over"))
}

func FuzzMeta(f *testing.F) {
	f.Add("0123456789abcdef", []byte(`{"p":"coatcheck-peer/1","b":"0123456789abcdef","n":"web1","a":"10.0.0.1:7947"}`))
	f.Add("x", []byte(`{`))
	cfg, _ := testConfig(1)
	cfg, err := cfg.withDefaults()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id string, b []byte) {
		g := &gossip{c: &Cluster{cfg: cfg, set: setOf("a")}, ready: make(chan struct{}, 1)}
		n := &memberlist.Node{Name: id, Addr: net.IPv4(10, 0, 0, 1), Port: 7946, Meta: b, State: memberlist.StateAlive}
		refused := g.NotifyAlive(n)
		g.NotifyJoin(n)
		g.NotifyConflict(n, n)
		_ = g.NotifyMerge([]*memberlist.Node{n}) // whatever it says, it must not panic
		for _, e := range g.take() {
			if !validID(e.seen.ID) || !validID(e.seen.Boot) || refused != nil {
				t.Fatalf("node %q is taken for %+v, and refused with: %v", id, e.seen, refused)
			}
		}
	})
}
