package resp

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

func hashOf(t *testing.T, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(hash)
}

func usersFile(t *testing.T, text string, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadUsers(t *testing.T) {
	hash := hashOf(t, "secret")
	users, err := ReadUsers(usersFile(t, "# who\n\nshop:tenant1:"+hash+"\n default:tenant2:"+hash+"\n", 0o640))
	if err != nil {
		t.Fatal(err)
	}
	if len(users) != 2 || users["shop"].Tenant != "tenant1" || string(users["default"].Hash) != hash {
		t.Errorf("got %v", users)
	}
}

func TestReadUsersRefuses(t *testing.T) {
	hash := hashOf(t, "secret")
	for what, c := range map[string]struct {
		text string
		mode fs.FileMode
		why  string
	}{
		"a file that everybody may read":  {"a:b:" + hash, 0o644, "chmod o-r"},
		"a file that its group may write": {"a:b:" + hash, 0o660, "(mode 0660), and so make themselves a user of any tenant: chmod go-w"},
		"a file that all may write":       {"a:b:" + hash, 0o602, "chmod go-w"},
		"a line of another form":          {"a:" + hash, 0o600, "line 1: a line is user:tenant:hash"},
		"a password in the clear":         {"# \na:b:secret", 0o600, "line 2: the hash of user a is not bcrypt's"},
		"a user twice":                    {"a:b:" + hash + "\na:c:" + hash, 0o600, "line 2: the user a is there twice"},
		"nobody":                          {"# nobody\n", 0o600, "names nobody"},
	} {
		_, err := ReadUsers(usersFile(t, c.text, c.mode))
		switch {
		case err == nil || !strings.Contains(err.Error(), c.why):
			t.Errorf("%s: %v, want %q", what, err, c.why)
		case strings.Contains(err.Error(), hash) || strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the error repeats what is secret: %v", what, err)
		}
	}
	if _, err := ReadUsers("/no/such/file"); err == nil {
		t.Error("a file that is not there was read")
	}
}

// owned is the information of a file that belongs to somebody.
type owned struct {
	fs.FileInfo
	uid uint32
}

func (owned) Mode() fs.FileMode { return 0o600 }
func (o owned) Sys() any        { return &syscall.Stat_t{Uid: o.uid} }

// TestAFileOfUsersBelongsToRootOrTheDaemon: whoever owns it can make itself a user of any tenant.
func TestAFileOfUsersBelongsToRootOrTheDaemon(t *testing.T) {
	own := uint32(os.Geteuid())
	for uid, allowed := range map[uint32]bool{0: true, own: true, own + 4711: false} {
		err := trusted("/etc/users", owned{uid: uid})
		if (err == nil) != allowed {
			t.Errorf("that of user %d: %v", uid, err)
		}
		if err != nil && !strings.Contains(err.Error(), fmt.Sprintf("/etc/users belongs to user %d", uid)) {
			t.Errorf("the error does not say what is wrong: %v", err)
		}
	}
}

// present is a client that is still there.
func present() failure { return "" }

func TestLogin(t *testing.T) {
	l := newLogin(Users{"shop": {"tenant1", []byte(hashOf(t, "secret"))}}, nil)
	for range 2 { // the second time it is remembered
		for _, c := range []struct {
			user, password, tenant string
			ok                     bool
		}{
			{"shop", "secret", "tenant1", true},
			{"shop", "Secret", "", false},
			{"shop", "", "", false},
			{"nobody", "secret", "", false},
			{"shop", "secret" + strings.Repeat("x", maxPassword), "", false},
		} {
			tenant, f := l.check(c.user, []byte(c.password), present)
			if tenant != c.tenant || (f == "") != c.ok || !c.ok && f != errWrongPass {
				t.Errorf("%s %q: %q, %q", c.user, c.password, tenant, f)
			}
		}
	}
}

func TestHashPassword(t *testing.T) {
	hash, err := HashPassword([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if bcrypt.CompareHashAndPassword([]byte(hash), []byte("secret")) != nil {
		t.Error("the hash is not the password's")
	}
	if _, err := HashPassword([]byte(strings.Repeat("x", maxPassword+1))); err == nil {
		t.Error("a password that bcrypt would cut off was hashed")
	}
}
