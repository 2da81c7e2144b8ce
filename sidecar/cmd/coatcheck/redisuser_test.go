package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/resp"
)

func TestRedisUserMakesALineThatTheEndpointTakes(t *testing.T) {
	var out, errOut strings.Builder
	if code := run([]string{"redis-user", "shop", "t1"}, strings.NewReader("secret\n"), &out, &errOut); code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	users, err := resp.ReadUsers(path)
	if err != nil || users["shop"].Tenant != "t1" {
		t.Errorf("the endpoint reads %v from %q: %v", users, out.String(), err)
	}
	if strings.Contains(out.String(), "secret") {
		t.Error("the password stands in the line")
	}
	for _, args := range [][]string{{"redis-user", "a:b"}, {"redis-user"}} {
		if code := run(args, strings.NewReader("secret"), &out, &errOut); code != exitUsage {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
	if code := run([]string{"redis-user", "shop"}, strings.NewReader("\n"), &out, &errOut); code != exitFailed {
		t.Errorf("an empty password: exit code %d", code)
	}
}
