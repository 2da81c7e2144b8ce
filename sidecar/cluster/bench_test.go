package cluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
)

// BenchmarkCall measures a question's round trip over loopback, beside an echo over bare TLS.
//
//	go test -run '^$' -bench Call ./sidecar/cluster
func BenchmarkCall(b *testing.B) {
	body := make([]byte, 200)
	b.Run("bareTLS", func(b *testing.B) { benchmarkBareTLS(b, body) })
	one, other := benchmarkPair(b)
	ask := func(b *testing.B, inOrder bool) {
		if _, err := one.Call(context.Background(), other.Self().ID, inOrder, body); err != nil {
			b.Error(err)
		}
	}
	b.Run("question", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ask(b, false)
		}
	})
	b.Run("ordered", func(b *testing.B) {
		for b.Loop() {
			ask(b, true)
		}
	})
	b.Run("questions-32-at-once", func(b *testing.B) {
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				ask(b, false)
			}
		})
	})
}

func benchmarkPair(b *testing.B) (one, other *Cluster) {
	b.Helper()
	cfg, _ := testConfig(1)
	one = begin(b, cfg)
	cfg, _ = testConfig(2)
	cfg.Join = []string{one.set.self.gossip}
	other = begin(b, cfg)
	other.Handle(serving(echo))
	until(b, "they are connected", func() bool { return one.Connected(other.Self().ID) }, func() string { return "they are not" })
	return one, other
}

// benchmarkBareTLS measures what any protocol over TLS has to pay.
func benchmarkBareTLS(b *testing.B, body []byte) {
	cfg, _ := testConfig(1)
	cfg, err := cfg.withDefaults()
	if err != nil {
		b.Fatal(err)
	}
	trust, err := cfg.readTrust()
	if err != nil {
		b.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", trust.tls())
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		echoAll(nc, len(body))
	}()
	nc, err := tls.Dial("tcp", ln.Addr().String(), trust.tls())
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	answer := make([]byte, len(body))
	for b.Loop() {
		if _, err := nc.Write(body); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(nc, answer); err != nil {
			b.Fatal(err)
		}
	}
}

// echoAll sends back what comes.
func echoAll(nc net.Conn, size int) {
	in, body := bufio.NewReader(nc), make([]byte, size)
	for {
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		if _, err := nc.Write(body); err != nil {
			return
		}
	}
}
