package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/cluster"
)

// cli runs a command line and returns the exit code and what it printed.
func cli(args ...string) (code int, out, errOut string) {
	var o, e strings.Builder
	code = run(args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func TestTLSMakesFilesThatLetAHostIn(t *testing.T) {
	dir := t.TempDir()
	if code, out, errOut := cli("tls", "ca", dir); code != 0 || out != filepath.Join(dir, "ca.pem")+"\n" {
		t.Fatalf("ca: exit code %d, %q: %s", code, out, errOut)
	}
	if code, out, errOut := cli("tls", "node", dir, "--name", "web1", "--cluster", "shop"); code != 0 || out != filepath.Join(dir, "web1.pem")+"\n" {
		t.Fatalf("node: exit code %d, %q: %s", code, out, errOut)
	}
	for _, name := range []string{"ca.pem", "ca-key.pem", "web1.pem", "web1-key.pem"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != fs.FileMode(0o600) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	c, err := cluster.Start(cluster.Config{
		ID: "shop", Bind: "127.0.0.1:0", Advertise: "127.0.0.1:0", PeerBind: "127.0.0.1:0", Secrets: []string{cluster.NewSecret()},
		TLSCA: filepath.Join(dir, "ca.pem"), TLSCert: filepath.Join(dir, "web1.pem"), TLSKey: filepath.Join(dir, "web1-key.pem"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if name := c.Self().Name; name != "web1" {
		t.Errorf("the host is named %q", name)
	}
}

func TestTLSOverwritesNothingAndSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	node := []string{"tls", "node", dir, "--name", "web1", "--cluster", "shop"}
	if code, _, errOut := cli(node...); code != exitFailed || !strings.Contains(errOut, "read the authority") {
		t.Errorf("a node without an authority: exit code %d: %s", code, errOut)
	}
	for _, args := range [][]string{{"tls", "ca", dir}, node} {
		if code, _, errOut := cli(args...); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, errOut)
		}
		if code, _, errOut := cli(args...); code != exitFailed || !strings.Contains(errOut, "exists") {
			t.Errorf("%v again: exit code %d: %s", args, code, errOut)
		}
	}
	for _, args := range [][]string{
		{"tls", "node", dir, "--name", "web2"},
		{"tls", "node", dir, "--cluster", "shop"},
		{"tls", "ca"},
	} {
		if code, _, _ := cli(args...); code != exitUsage {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
	for _, args := range [][]string{
		{"tls", "node", dir, "--name", "../web2", "--cluster", "shop"},
		{"tls", "node", dir, "--name", "web2", "--cluster", "a b"},
		{"tls", "node", dir, "--name", "web2", "--cluster", "shop", "--days", "8000"},
	} {
		if code, _, errOut := cli(args...); code != exitFailed {
			t.Errorf("%v: exit code %d: %s", args, code, errOut)
		}
	}
}

func TestClusterSecretsDiffer(t *testing.T) {
	_, first, _ := cli("cluster", "secret")
	_, second, _ := cli("cluster", "secret")
	if len(strings.TrimSpace(first)) < 40 || first == second {
		t.Errorf("got %q and %q", first, second)
	}
}
