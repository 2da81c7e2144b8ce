package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority makes certificates for hosts.
func authority(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := MakeAuthority(dir, time.Now(), 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	return dir
}

// certify gives a host a certificate.
func certify(t *testing.T, cfg *Config, dir, cluster string) {
	t.Helper()
	if err := MakeNode(dir, cfg.Name, cluster, time.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	cfg.TLSCA = filepath.Join(dir, authorityFile)
	cfg.TLSCert, cfg.TLSKey = filepath.Join(dir, cfg.Name+".pem"), filepath.Join(dir, cfg.Name+"-key.pem")
}

func TestHostsWithCertificatesFindEachOther(t *testing.T) {
	dir := authority(t)
	all := gather(t, 3, func(c *Config) { certify(t, c, dir, c.ID) })
	all[2].Handle(serving(echo))
	if b, err := all[0].Call(t.Context(), all[2].Self().ID, false, []byte("x")); err != nil || string(b) != "x" {
		t.Errorf("got %q, %v", b, err)
	}
}

// push says hello as a host of a configuration would, whatever the other side's certificate is. It returns how it is answered.
func push(t *testing.T, to *Cluster, cfg Config) (frame, error) {
	t.Helper()
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	own, err := cfg.readTrust()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := net.Dial("tcp", to.Self().Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	conf := own.tls()
	conf.VerifyConnection = nil
	tc := tls.Client(nc, conf)
	g := to.greeting()
	g.ID, g.Name = newID(), own.node
	if err := writeFrame(tc, frame{hello, 0, g.encode()}); err != nil {
		return frame{}, err
	}
	return readFrame(tc, maxGreeting)
}

func TestStrangersNeitherJoinNorAskNorAnswer(t *testing.T) {
	dir := authority(t)
	for _, c := range []struct {
		what         string
		certificates bool
		change       func(*Config)
		reason       string // in the log of the one that it connects to
	}{
		{"another secret", false, func(c *Config) { c.Secrets = []string{"another secret of bytes"} }, "unknown authority"},
		{"another cluster", false, func(c *Config) { c.ID = "prod" }, "unknown authority"},
		{"another protocol version", false, func(c *Config) { c.protocol = "coatcheck-peer/2" }, "coatcheck-peer/2"},
		{"another authority", true, func(c *Config) { certify(t, c, authority(t), c.ID) }, "unknown authority"},
		{"another cluster of the authority", true, func(c *Config) { c.ID = "prod"; certify(t, c, dir, c.ID) }, "is not for a node of cluster"},
		{"the secret without a certificate", true, func(*Config) {}, "unknown authority"},
	} {
		t.Run(c.what, func(t *testing.T) {
			cfg, book := testConfig(1)
			if c.certificates {
				cfg.Name = "web1-" + strings.ReplaceAll(c.what, " ", "-")
				certify(t, &cfg, dir, cfg.ID)
			}
			one := begin(t, cfg)
			one.Handle(serving(func(_ context.Context, from string, _ []byte) ([]byte, error) {
				t.Errorf("node %s was served", from)
				return nil, nil
			}))
			theirs, book3 := testConfig(3)
			theirs.Join = []string{one.set.self.gossip}
			c.change(&theirs)
			if f, err := push(t, one, theirs); err == nil {
				t.Errorf("its hello is answered by kind %d", f.kind)
			}
			until(t, "the connection is refused", func() bool { return book.has("a peer connection is refused", c.reason) }, book.String)

			stranger := begin(t, theirs)
			self := one.Self() // its operator tells it where the other is, so that it tries the peer connection in any case
			stranger.learn(roster{Members: []rosterMember{{ID: self.ID, Boot: self.Boot, Name: self.Name, Addr: self.Addr, Gossip: one.set.self.gossip}}})
			until(t, "the stranger has tried both ways", func() bool {
				tried := book3.has("a host cannot be joined") || book3.has("a host is alive", self.ID) || book3.has("a host is kept out", self.ID, "it speaks")
				return tried && book3.has("no connection to a peer", self.ID)
			}, book3.String)
			if members := one.Members(); len(members) != 1 {
				t.Errorf("the members are %v", members)
			}
			if _, err := stranger.Call(t.Context(), self.ID, false, nil); !errors.Is(err, ErrNotSent) {
				t.Errorf("its question: %v", err)
			}
			if _, err := one.Call(t.Context(), stranger.Self().ID, false, nil); !errors.Is(err, ErrNotSent) {
				t.Errorf("a question to it: %v", err)
			}
		})
	}
}

func TestOthersCannotEvenSpeak(t *testing.T) {
	cfg, book := testConfig(1)
	cfg.DialTimeout = 200 * time.Millisecond
	c := begin(t, cfg)
	for what, speak := range map[string]func(net.Conn) error{
		"nothing at all": func(net.Conn) error { return nil },
		"HTTP":           func(nc net.Conn) error { _, err := io.WriteString(nc, "GET / HTTP/1.0\r\n\r\n"); return err },
		"a frame":        func(nc net.Conn) error { return writeFrame(nc, frame{hello, 0, c.greeting().encode()}) },
		"TLS without a certificate": func(nc net.Conn) error {
			return tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}).Handshake()
		},
		"TLS 1.2": func(nc net.Conn) error {
			conf := c.trust.Load().tls()
			conf.MinVersion, conf.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
			if err := tls.Client(nc, conf).Handshake(); err == nil {
				t.Error("TLS 1.2 is spoken")
			}
			return nil
		},
		"no protocol": func(nc net.Conn) error {
			conf := c.trust.Load().tls()
			conf.NextProtos, conf.VerifyConnection = nil, nil
			return tls.Client(nc, conf).Handshake()
		},
	} {
		nc, err := net.Dial("tcp", c.Self().Addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := speak(nc); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		nc.SetReadDeadline(time.Now().Add(patience))
		b, err := io.ReadAll(nc)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is kept open", what)
		}
		if strings.Contains(string(b), c.Self().ID) {
			t.Errorf("%s: it is told who is there", what)
		}
		nc.Close()
	}
	if n := len(c.server.conns()); n > 0 {
		t.Errorf("%d are let in", n)
	}
	if !book.has("a peer connection is refused") {
		t.Errorf("the log says nothing of them:\n%s", book)
	}
}

func TestAPeerIsWhoItsCertificateSays(t *testing.T) {
	c := begin(t, func() Config { cfg, _ := testConfig(1); return cfg }())
	g := c.greeting()
	if _, err := decodeGreeting(g.encode(), "web1"); err != nil {
		t.Error(err)
	}
	if _, err := decodeGreeting(g.encode(), "web2"); err == nil || !strings.Contains(err.Error(), "calls itself web1, and its certificate is for web2") {
		t.Errorf("another's name: %v", err)
	}
	cfg, _ := testConfig(2)
	if f, err := push(t, c, cfg); err != nil || f.kind != welcome {
		t.Errorf("a true hello is answered by kind %d, %v", f.kind, err)
	}
}

func TestSecretsRotate(t *testing.T) {
	const older, newer = "the older secret of two", "the newer secret of two"
	dir := t.TempDir()
	files := map[string]string{}
	write := func(name string, secrets ...string) {
		if err := os.WriteFile(files[name], []byte("# shared\n\n"+strings.Join(secrets, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := gather(t, 2, func(c *Config) {
		files[c.Name] = filepath.Join(dir, c.Name)
		c.SecretFile = files[c.Name]
		write(c.Name, older)
	})
	for _, c := range all {
		c.Handle(serving(echo))
	}
	print := all[0].Secrets()
	for _, secrets := range [][]string{{older, newer}, {newer, older}, {newer}} {
		for _, c := range all {
			write(c.Self().Name, secrets...)
			if err := c.Reload(); err != nil {
				t.Fatal(err)
			}
			// A connection may be ended when its certificate comes from the older secret, and is made again.
			meshed(t, all...)
			for i := range all {
				var err error
				until(t, "they answer", func() bool {
					_, err = all[i].Call(t.Context(), all[1-i].Self().ID, false, nil)
					return err == nil
				}, func() string { return err.Error() })
			}
		}
	}
	if now := all[0].Secrets(); len(now) != 1 || now[0] == print[0] {
		t.Errorf("the secret was %v and is %v", print, now)
	}
	late, _ := testConfig(3)
	late.Secrets, late.Join = []string{newer}, []string{all[0].set.self.gossip}
	meshed(t, all[0], all[1], begin(t, late))
}

func TestASecretThatIsTakenOutLetsNobodyIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(testSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := gather(t, 2, func(c *Config) {
		if c.Name == "web1" {
			c.SecretFile = file
		}
	})
	if err := os.WriteFile(file, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := all[0].Reload(); !errors.Is(err, ErrSecret) {
		t.Errorf("a short one: %v", err)
	}
	meshed(t, all...) // as it was
	if err := os.WriteFile(file, []byte("a wholly different secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := all[0].Reload(); err != nil {
		t.Fatal(err)
	}
	for i, c := range all {
		until(t, c.Self().Name+" has lost the other", func() bool { return !c.Connected(all[1-i].Self().ID) && len(c.server.conns()) == 0 }, func() string { return "a connection" })
	}
}

func TestFilesThatOthersCanReadAreRefused(t *testing.T) {
	dir := authority(t)
	cfg, _ := testConfig(1)
	certify(t, &cfg, dir, cfg.ID)
	cfg.SecretFile = filepath.Join(dir, "secret")
	if err := os.WriteFile(cfg.SecretFile, []byte(testSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{cfg.SecretFile, cfg.TLSKey} {
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		if _, err := Start(cfg); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("%s: %v", path, err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	begin(t, cfg)
}

func TestCertificatesThatPeersWouldRefuseAreRefusedAtTheStart(t *testing.T) {
	dir := authority(t)
	for want, change := range map[string]func(*Config){
		`not for a node of cluster "blog"`: func(c *Config) { c.ID = "blog" },
		`for node "web1"`:                  func(c *Config) { c.Name = "web7" },
		"unknown authority":                func(c *Config) { c.TLSCA = filepath.Join(authority(t), authorityFile) },
		"there is no certificate in it":    func(c *Config) { c.TLSCA = c.TLSKey },
	} {
		cfg, _ := testConfig(1)
		if _, err := os.Stat(filepath.Join(dir, "web1.pem")); err != nil {
			certify(t, &cfg, dir, cfg.ID)
		}
		cfg.TLSCA, cfg.TLSCert, cfg.TLSKey = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "web1.pem"), filepath.Join(dir, "web1-key.pem")
		change(&cfg)
		if _, err := Start(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestNoSecretIsLogged(t *testing.T) {
	cfg, book := testConfig(1)
	one := begin(t, cfg)
	other, theirs := testConfig(2)
	other.Secrets, other.Join = []string{"another secret of bytes"}, []string{one.set.self.gossip}
	stranger := begin(t, other)
	until(t, "they have met", func() bool { return theirs.has("cannot be joined") }, theirs.String)
	stranger.Close()
	for _, text := range []string{book.String(), theirs.String()} {
		for _, secret := range []string{testSecret, "another secret of bytes"} {
			if strings.Contains(text, secret) {
				t.Errorf("a secret is in the log:\n%s", text)
			}
		}
	}
	for _, s := range one.trust.Load().secrets {
		if strings.Contains(book.String(), string(s.gossipKey)) || s.String() != s.print {
			t.Error("a key is in the log")
		}
	}
}
