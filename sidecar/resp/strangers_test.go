package resp

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/tenant"
)

// withUsers makes an endpoint one of the users shop and blog, whose passwords are their names.
func withUsers(t *testing.T) func(*Config) {
	return func(c *Config) {
		c.Users = Users{"shop": {"test", []byte(hashOf(t, "shop"))}, "blog": {"test", []byte(hashOf(t, "blog"))}}
	}
}

// TestSilentStrangersKeepNobodyOut, nor do they cost anybody its place who has authenticated.
func TestSilentStrangersKeepNobodyOut(t *testing.T) {
	s, path := serve(t, withUsers(t), func(c *Config) { c.Connections = tenant.NewQuota(10) })
	defer s.Close()
	var known []*client
	for range 8 {
		for range 12 {
			dial(t, path)
		}
		c := dial(t, path)
		c.send("AUTH", "shop", "shop")
		c.expect("+OK")
		known = append(known, c)
	}
	for _, c := range known {
		c.send("PING")
		c.expect("+PONG")
	}
	within(t, 10*time.Second, "strangers who made room are still open", func() bool { return s.Connections() <= 10 })
	for range 2 { // those who have authenticated may take all
		c := dial(t, path)
		c.send("AUTH", "blog", "blog")
		c.expect("+OK")
	}
	dial(t, path).expect(string("-" + errMaxClients))
	for _, c := range known {
		c.Close()
	}
	within(t, 10*time.Second, "places are not given back", func() bool { return s.cfg.Connections.Used() == 2 })
}

// TestAStrangerHasToAuthenticateInTime, whatever it says; who has may be silent.
func TestAStrangerHasToAuthenticateInTime(t *testing.T) {
	s, path := serve(t, withUsers(t), func(c *Config) { c.Timeout = 300 * time.Millisecond })
	defer s.Close()
	known := dial(t, path)
	known.send("AUTH", "shop", "shop")
	known.expect("+OK")
	const why = "-ERR no AUTH within 300ms (limits.message_timeout)\r\n"
	if said := dial(t, path).ends(); said != why {
		t.Errorf("who said nothing was told %q", said)
	}
	talker := dial(t, path)
	go func() {
		for {
			if _, err := io.WriteString(talker, "PING\r\n"); err != nil {
				return
			}
		}
	}()
	said := talker.ends()
	if said = strings.ReplaceAll(said, "-"+string(errNoAuth)+"\r\n", ""); !strings.HasPrefix(why, said) { // a reset may take the end
		t.Errorf("who spoke all the time was told %q", said)
	}
	known.send("PING")
	known.expect("+PONG")
}

// written is a log that goroutines may share.
type written struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *written) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.b.String(), what)
}

// TestWrongPasswordsEndAConnection, however many are sent at once, and do not flood the log.
func TestWrongPasswordsEndAConnection(t *testing.T) {
	log := &written{}
	s, path := serve(t, withUsers(t), func(c *Config) { c.Log = slog.New(slog.NewTextHandler(log, nil)) })
	defer s.Close()
	c := dial(t, path)
	for i := range maxWrong - 1 {
		c.send("HELLO", "2", "AUTH", "shop", string(rune('0'+i)))
		c.expect(string("-" + errWrongPass))
	}
	c.send("AUTH", "shop", "shop")
	c.expect("+OK")
	for range 3 {
		c = dial(t, path)
		c.send("AUTH", "shop", strings.Repeat("x", maxPassword+1)) // is wrong at once
		io.WriteString(c, strings.Repeat(encode("AUTH", "shop", "wrong"), 50))
		if said := c.ends(); strings.Count(said, "\r\n") != maxWrong || strings.Count(said, string(errWrongPass)) != maxWrong {
			t.Errorf("told %q", said)
		}
		io.WriteString(dial(t, path), "POST / HTTP/1.1\r\n")
	}
	within(t, 10*time.Second, "it is not logged", func() bool { return log.count("it speaks HTTP") > 0 && log.count("password refused") > 0 })
	if n, m := log.count("password refused"), log.count("it speaks HTTP"); n != 1 || m != 1 {
		t.Errorf("logged %d and %d times", n, m)
	}
}

// TestGuessesDoNotKeepTheServerFromClosing, though they wait for others that take long.
func TestGuessesDoNotKeepTheServerFromClosing(t *testing.T) {
	s, path := serve(t, withUsers(t))
	s.login.slow <- struct{}{} // a check that does not end
	var waiting []*client
	for i := range 2 * maxGuesses {
		c := dial(t, path)
		c.send("AUTH", "shop", string(rune('a'+i%maxGuesses)))
		waiting = append(waiting, c)
	}
	within(t, 10*time.Second, "not all wait", func() bool { return s.login.waiting("shop") == 2*maxGuesses })
	closed := make(chan struct{})
	go func() {
		s.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal("the server waits for passwords to be checked")
	}
	for _, c := range waiting {
		if said := c.ends(); said != "-"+string(errStopping)+"\r\n" {
			t.Errorf("told %q", said)
		}
	}
}

// waiting returns how many wait for passwords of a user to be checked.
func (l *login) waiting(user string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.guesses[user] {
		n += g.waiting
	}
	return n
}

// TestGuessesOfOneUserAreLimited, and keep neither its own client out nor those of another user.
func TestGuessesOfOneUserAreLimited(t *testing.T) {
	cfg := Config{}
	withUsers(t)(&cfg)
	l := newLogin(cfg.Users, nil)
	l.slow <- struct{}{}
	type answer struct {
		user string
		failure
	}
	answers := make(chan answer)
	ask := func(user, password string, abandoned func() failure) {
		go func() {
			_, f := l.check(user, []byte(password), abandoned)
			answers <- answer{user, f}
		}()
	}
	for range 20 { // one guess, the client's own
		ask("shop", "shop", present)
	}
	for i := range maxGuesses - 1 {
		ask("shop", string(rune('a'+i)), present)
	}
	within(t, 10*time.Second, "not all wait", func() bool { return l.waiting("shop") == 20+maxGuesses-1 })
	if _, f := l.check("shop", []byte("one more"), present); f != errManyGuesses {
		t.Errorf("one more was told %q", f)
	}
	ask("blog", "blog", present)
	ask("nobody", "blog", present)
	ask("blog", "gone", func() failure { return errGone })
	within(t, 10*time.Second, "others cannot wait", func() bool { return l.waiting("blog") == 2 && l.waiting("") == 1 })
	<-l.slow
	got := make(map[answer]int)
	for range 20 + maxGuesses - 1 + 3 {
		got[<-answers]++
	}
	for a, want := range map[answer]int{
		{"shop", ""}: 20, {"shop", errWrongPass}: maxGuesses - 1, {"blog", ""}: 1, {"nobody", errWrongPass}: 1, {"blog", errGone}: 1,
	} {
		if got[a] != want {
			t.Errorf("%q was told %q %d times, want %d", a.user, a.failure, got[a], want)
		}
	}
	for user, waiting := range l.guesses {
		if len(waiting) > 0 {
			t.Errorf("guesses of %q are left", user)
		}
	}
}
