package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/app"
	"github.com/coatcheck/coatcheck/sidecar/cluster"
	"github.com/coatcheck/coatcheck/sidecar/config"
)

// lonely is a daemon that is a cluster of one.
type lonely struct{ socket, secret string }

func newLonely(t *testing.T) *lonely {
	t.Helper()
	dir := t.TempDir()
	l := &lonely{filepath.Join(dir, "s"), filepath.Join(dir, "secret")}
	if err := os.WriteFile(l.secret, []byte("# of the shop\n"+cluster.NewSecret()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Socket, cfg.Data = l.socket, filepath.Join(dir, "data")
	cfg.Cluster.Sessions, cfg.Cluster.ClusterID, cfg.Cluster.Name, cfg.Cluster.SecretFile = "owner", "shop", "web1", l.secret
	cfg.Cluster.Bind = config.Addr{Network: "tcp", Address: "127.0.0.1:0"}
	cfg.Cluster.Advertise, cfg.Cluster.PeerBind = cfg.Cluster.Bind, cfg.Cluster.Bind
	a, err := app.Start(cfg, "test", newLog(&bytes.Buffer{}, cfg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Stop)
	eventually(t, "it decides", func() bool {
		_, out, _ := command("members", "--socket", l.socket)
		return strings.Contains(out, "it may decide, it serves 256 shards")
	})
	return l
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func TestMembers(t *testing.T) {
	l := newLonely(t)
	code, out, errOut := command("members", "--socket", l.socket)
	if code != exitOK || !strings.HasPrefix(out, "NAME  ID  ") || !strings.Contains(out, "\nweb1  ") || !strings.Contains(out, " of cluster shop: view ") {
		t.Errorf("members: %d %s%s", code, out, errOut)
	}
	if code, out, _ = command("members", "--json", "--socket", l.socket); code != exitOK || !strings.Contains(out, `"cluster":"shop"`) || !strings.Contains(out, `"shards":256`) {
		t.Errorf("members --json: %d %s", code, out)
	}
	if _, out, _ = command("status", "--socket", l.socket); !strings.Contains(out, "shop: 1 members, 1 alive, 1 ready; web1 is at view") ||
		!strings.Contains(out, "on this host, copies included") {
		t.Errorf("status: %s", out)
	}
}

func TestChangesOfAClusterThatCannotBe(t *testing.T) {
	l := newLonely(t)
	wants(t, exitRefused, "nobody can take over", "cluster", "leave", "--socket", l.socket)
	wants(t, exitRefused, "not in the member set", "cluster", "forget", "0123456789abcdef", "--socket", l.socket)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	wants(t, exitUnreachable, "join "+nobody.Addr().String(), "cluster", "join", nobody.Addr().String(), "--socket", l.socket)
	if code, out, errOut := command("cluster", "join", "--json", "--socket", l.socket); code != exitOK || out != "{\"done\":true}\n" {
		t.Errorf("join: %d %s%s", code, out, errOut)
	}
	wants(t, exitUsage, "accepts 1 arg", "cluster", "forget", "--socket", l.socket)
}

// secretsIn returns the secrets of a file.
func secretsIn(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, secrets, _ := strings.Cut(string(b), "\n")
	if head != "# of the shop" {
		t.Errorf("the comment is gone: %s", head)
	}
	return strings.Fields(secrets)
}

func TestTheSecretIsChangedStepByStep(t *testing.T) {
	l := newLonely(t)
	before, err := os.Stat(l.secret)
	if err != nil {
		t.Fatal(err)
	}
	old := secretsIn(t, l.secret)[0]
	step := func(name string) (string, []string) {
		t.Helper()
		code, out, errOut := command("cluster", "rotate-secret", name, l.secret, "--socket", l.socket)
		if code != exitOK {
			t.Fatalf("%s: %d %s", name, code, errOut)
		}
		return out, secretsIn(t, l.secret)
	}
	wants(t, exitFailed, "add makes the second one", "cluster", "rotate-secret", "use", l.secret, "--socket", l.socket)
	wants(t, exitFailed, "two are to be", "cluster", "rotate-secret", "drop", l.secret, "--socket", l.socket)
	wants(t, exitUsage, "is no step", "cluster", "rotate-secret", "twist", l.secret, "--socket", l.socket)
	said, now := step("add")
	if len(now) != 2 || now[0] != old || now[1] == old {
		t.Errorf("after add there are %d secrets, the old one first: %t", len(now), now[0] == old)
	}
	prints := strings.Fields(strings.TrimPrefix(said, "secrets in use: "))
	if len(prints) != 2 || strings.Contains(said, now[1]) {
		t.Errorf("add says %q", said)
	}
	wants(t, exitFailed, "not ended by drop", "cluster", "rotate-secret", "add", l.secret, "--socket", l.socket)
	next := now[1]
	if said, now = step("use"); len(now) != 2 || now[0] != next || now[1] != old || said != fmt.Sprintf("secrets in use: %s %s\n", prints[1], prints[0]) {
		t.Errorf("use says %q", said)
	}
	if said, now = step("drop"); len(now) != 1 || now[0] != next || said != "secrets in use: "+prints[1]+"\n" {
		t.Errorf("drop says %q", said)
	}
	after, err := os.Stat(l.secret)
	if err != nil || after.Mode() != before.Mode() || after.Sys().(*syscall.Stat_t).Uid != before.Sys().(*syscall.Stat_t).Uid {
		t.Errorf("the file is %v, was %v: %v", after.Mode(), before.Mode(), err)
	}
}

func TestAStepThatTheDaemonDoesNotTakeIsTakenBack(t *testing.T) {
	l := newLonely(t)
	other := l.secret + ".other" // not the daemon's: what it has read stays
	if err := os.WriteFile(other, []byte(cluster.NewSecret()), 0o600); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(other)
	wants(t, exitUnreachable, other+" is as it was", "cluster", "rotate-secret", "add", other, "--socket", l.socket+".none")
	wants(t, exitFailed, "the daemon has read another file", "cluster", "rotate-secret", "add", other, "--socket", l.socket)
	if err := os.Chmod(l.secret, 0o644); err != nil {
		t.Fatal(err)
	}
	wants(t, exitRefused, other+" is as it was", "cluster", "rotate-secret", "add", other, "--socket", l.socket)
	if after, _ := os.ReadFile(other); !bytes.Equal(before, after) {
		t.Error("the file was changed all the same")
	}
	left, err := filepath.Glob(other + ".*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestReloadBySignal(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	var out, errOut output
	done := make(chan int, 1)
	go func() { done <- run([]string{"serve", "--socket", socket}, strings.NewReader(""), &out, &errOut) }()
	eventually(t, "it serves", func() bool { code, _, _ := command("ping", "--socket", socket); return code == exitOK })
	signalled(t, syscall.SIGHUP)
	eventually(t, "it says that there was nothing to read again", func() bool { return strings.Contains(errOut.String(), "nothing was read again") })
	signalled(t, syscall.SIGTERM)
	select {
	case code := <-done:
		if code != exitOK {
			t.Errorf("serve ended with %d: %s", code, errOut.String())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
}

// signalled sends this process a signal.
func signalled(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		t.Fatal(err)
	}
}
