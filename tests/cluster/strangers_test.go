package cluster

import (
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// TestStrangersStayOutside: a host with the wrong secret, cluster id or certificate cannot join, read or write, and the cluster goes on.
func TestStrangersStayOutside(t *testing.T) {
	t.Parallel()
	var ca authority
	g := form(t, plan{absent: 1, own: func(h *host) string {
		ca = authority{t, filepath.Join(h.team.dir, "ca")}
		return ca.certify(h.name, "town")
	}})
	inside, stranger := g.hosts[:2], g.hosts[2]
	if _, err := inside[0].ask("session.commit", pairs("id", "known", "fence", 0, "data", []byte("7"), "ttl_ms", 3_600_000)); err != nil {
		t.Fatal(err)
	}
	wrongSecret := filepath.Join(g.dir, "wrong-secret")
	g.write(wrongSecret, "another secret, which is long enough as well\n", 0o600)
	otherCA := authority{t, filepath.Join(g.dir, "other-ca")}
	for _, x := range []struct{ what, name, id, secret, certificate string }{
		{"another secret", "stranger", "town", wrongSecret, ca.certify("stranger", "town")},
		{"another cluster id", "villager", "village", g.secret(), ca.certify("villager", "village")},
		{"a certificate of another authority", "stranger", "town", g.secret(), otherCA.certify("stranger", "town")},
		{"no certificate", "stranger", "town", g.secret(), ""},
	} {
		t.Run(x.what, func(t *testing.T) {
			stranger.name = x.name
			stranger.extra = fmt.Sprintf("cluster_id = %q\nsecret_file = %q\n%s", x.id, x.secret, x.certificate)
			os.Remove(stranger.log())
			stranger.start()
			defer stranger.kill()
			stranger.mustStayOutside(t, inside)
		})
	}
	t.Run("another protocol version", func(t *testing.T) {
		certificate, err := tls.LoadX509KeyPair(filepath.Join(ca.dir, "stranger.pem"), filepath.Join(ca.dir, "stranger-key.pem"))
		if err != nil {
			t.Fatal(err)
		}
		for version, welcome := range map[string]bool{"coatcheck-peer/1": true, "coatcheck-peer/2": false} {
			conn, err := tls.Dial("tcp", inside[0].peering(), &tls.Config{
				Certificates: []tls.Certificate{certificate}, InsecureSkipVerify: true, NextProtos: []string{version},
			})
			if err == nil {
				conn.Close()
			}
			if (err == nil) != welcome {
				t.Errorf("a handshake with %s: %v", version, err)
			}
		}
	})
}

// mustStayOutside waits until the stranger was turned away, and checks that it has no part in the cluster.
func (h *host) mustStayOutside(t *testing.T, inside []*host) {
	t.Helper()
	eventually(t, patience, "the stranger tried and was turned away", func() (bool, string) {
		h.mustRun(t)
		if _, err := h.ask("server.ping", nil); err != nil {
			return false, err.Error()
		}
		said, err := os.ReadFile(h.log())
		return err == nil && wasTurnedAway(string(said)), string(said)
	})
	for _, ask := range []struct {
		method string
		params wire.Pairs
	}{
		{"session.open", pairs("id", "known")},
		{"session.commit", pairs("id", "known", "fence", 0, "data", []byte("8"), "ttl_ms", 1000)},
		{"kv.get", pairs("key", "k")},
		{"kv.set", pairs("key", "k", "value", []byte("v"))},
	} {
		if answer, err := h.ask(ask.method, ask.params); err == nil || failure(err, odd) != notDone {
			t.Errorf("%s by a stranger: %v, %v", ask.method, answer, err)
		}
	}
	for _, one := range inside {
		m, err := one.metrics()
		if err != nil || m["coatcheck_owner_members_ready"] != 2 || m["coatcheck_owner_permitted"] != 1 {
			t.Errorf("%s has %v ready members, %v", one, m["coatcheck_owner_members_ready"], err)
		}
		answer, err := one.ask("session.open", pairs("id", "known"))
		if err != nil || fmt.Sprintf("%s", answer.(map[string]any)["data"]) != "7" {
			t.Errorf("the session at %s: %v, %v", one, answer, err)
		}
	}
}

// wasTurnedAway says whether a log tells that the host came to another and was not let in.
func wasTurnedAway(log string) bool {
	for _, words := range []string{"no connection to a peer", "a host cannot be joined", "a peer connection is refused"} {
		for line := range strings.Lines(log) {
			if strings.Contains(line, words) && !strings.Contains(line, "connection refused") {
				return true
			}
		}
	}
	return false
}

// authority is a certificate authority, in its directory.
type authority struct {
	t   *testing.T
	dir string
}

// certify makes a certificate of a host for a cluster, unless there is one, and returns the settings that use it.
func (a authority) certify(name, cluster string) string {
	a.t.Helper()
	run := func(args ...string) {
		a.t.Helper()
		if out, err := exec.Command(theStage.daemon, append([]string{"tls"}, args...)...).CombinedOutput(); err != nil {
			a.t.Fatalf("coatcheck tls %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	if os.Mkdir(a.dir, 0o700) == nil {
		run("ca", a.dir)
	}
	file := filepath.Join(a.dir, name)
	if _, err := os.Stat(file + ".pem"); err != nil {
		run("node", a.dir, "--name", name, "--cluster", cluster)
	}
	return fmt.Sprintf("tls_cert = %q\ntls_key = %q\ntls_ca = %q\n", file+".pem", file+"-key.pem", filepath.Join(a.dir, "ca.pem"))
}
