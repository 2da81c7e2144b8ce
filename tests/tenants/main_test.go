// Package tenants has two tenants use one daemon, the built binary, each over a socket and as a user of the Redis protocol, and checks
// that neither sees, hinders or uses up what is the other's.
package tenants

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/coatcheck/coatcheck/tests/tenants/daemon"
)

func TestMain(m *testing.M) {
	if socket := os.Getenv(visit); socket != "" {
		os.Exit(visitor(socket))
	}
	os.Exit(daemon.Main(m))
}

// shared are the settings of a daemon with the tenants a and b, whose users of the Redis protocol are a and b as well. What is for
// each of them stands at the end.
const shared = `
resp = 'unix:DIR/resp'
redis.users = '%s'
%s
[tenants.a]
socket = 'DIR/a'
%s
[tenants.b]
socket = 'DIR/b'
%s
`

// open starts a daemon with the tenants a and b.
func open(t *testing.T, top, a, b string) *daemon.Daemon {
	t.Helper()
	users := ""
	for _, user := range []string{"a", "b"} {
		hash, err := bcrypt.GenerateFromPassword([]byte(user), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		users += fmt.Sprintf("%s:%s:%s\n", user, user, hash)
	}
	file := t.TempDir() + "/users"
	if err := os.WriteFile(file, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	return daemon.Start(t, fmt.Sprintf(shared, file, top, a, b))
}
