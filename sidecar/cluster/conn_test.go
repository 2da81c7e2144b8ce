package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// pipe returns the ends of a connection in memory, after the handshakes.
func pipe(t testing.TB, cfg *Config) (client, server *conn) {
	t.Helper()
	trust, err := cfg.readTrust()
	if err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	client, server = newConn(tls.Client(a, trust.tls()), trust, cfg), newConn(tls.Server(b, trust.tls()), trust, cfg)
	done := make(chan error, 1)
	go func() { done <- server.tls.Handshake() }()
	if err := errors.Join(client.tls.Handshake(), <-done); err != nil {
		t.Fatal(err)
	}
	client.peer.MaxFrame, server.peer.MaxFrame = cfg.MaxFrame, cfg.MaxFrame
	return client, server
}

func usual(t *testing.T) Config {
	t.Helper()
	cfg, _ := testConfig(1)
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestPingsKeepAConnectionThatNobodyUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := usual(t)
		client, server := pipe(t, &cfg)
		a := newAsker(client, "", 1)
		c := &Cluster{cfg: cfg}
		c.trust.Store(server.trust)
		s := newServer(c, nil)
		go a.run()
		go s.converse(t.Context(), s.enter(server), server)
		time.Sleep(time.Hour)
		if a.isEnded() || server.isEnded() {
			t.Errorf("it ended: %v", a.err)
		}
		a.end(errors.New("the test is over"))
		synctest.Wait()
	})
}

func TestAPeerThatSaysNothingIsGivenUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := usual(t)
		client, server := pipe(t, &cfg)
		go func() { // it reads, and answers nothing
			for {
				if _, err := server.read(); err != nil {
					return
				}
			}
		}()
		a := newAsker(client, "", 1)
		start := time.Now()
		a.run()
		if took := time.Since(start); took != cfg.Silence || !errors.Is(a.err, errSilent) {
			t.Errorf("after %s: %v; want it after %s", took, a.err, cfg.Silence)
		}
	})
}

func TestAPeerThatTakesNothingIsGivenUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := usual(t)
		client, _ := pipe(t, &cfg)
		a := newAsker(client, "", 1)
		q := put(t, a, question, 1)
		start := time.Now()
		a.run()
		if took := time.Since(start); took != cfg.WriteTimeout || a.err == nil {
			t.Errorf("after %s: %v; want it after %s", took, a.err, cfg.WriteTimeout)
		}
		if r := <-q.answer; !errors.Is(r.err, ErrNoAnswer) {
			t.Errorf("the question: %v", r.err)
		}
	})
}

func TestReconnectsWaitLongerEachTimeAndNotTogether(t *testing.T) {
	tries := func(random float64) (at []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			start := time.Now()
			l := &link{id: newID(), kick: make(chan struct{}, 1), report: func(*link, error) {}, stop: stop}
			l.reach("a:1")
			<-l.kick
			l.dial = func(context.Context, string, string) (*asker, error) {
				if at = append(at, time.Since(start)); len(at) == 10 {
					stop()
				}
				return nil, errors.New("refused")
			}
			l.run(ctx, func() float64 { return random })
		})
		return at
	}
	early, late := tries(0), tries(1)
	for i := 2; i < len(early); i++ {
		shorter, longer := early[i]-early[i-1], late[i]-late[i-1]
		if shorter*2 != longer || longer > maxPause || longer < late[i-1]-late[i-2] {
			t.Errorf("pause %d takes %s to %s", i, shorter, longer)
		}
	}
	if first := late[1]; first != firstPause {
		t.Errorf("the first pause takes %s", first)
	}
	if last := late[9] - late[8]; last != maxPause {
		t.Errorf("the last pause takes %s", last)
	}
}

func TestAReasonToTryEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		tried := make(chan string, 1)
		l := &link{id: newID(), kick: make(chan struct{}, 1), report: func(*link, error) {}, stop: stop}
		l.reach("a:1")
		<-l.kick
		l.dial = func(_ context.Context, _, addr string) (*asker, error) {
			tried <- addr
			return nil, errors.New("refused")
		}
		go l.run(ctx, func() float64 { return 1 })
		for range 20 {
			<-tried
		}
		synctest.Wait() // in the longest pause
		start := time.Now()
		l.reach("b:1")
		if addr := <-tried; addr != "b:1" || time.Since(start) != 0 {
			t.Errorf("%s was tried after %s", addr, time.Since(start))
		}
		stop()
		synctest.Wait()
	})
}
