package resp

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/crypto/bcrypt"

	"github.com/coatcheck/coatcheck/sidecar/tenant"
)

// defaultUser is who AUTH with a password alone means.
const defaultUser = "default"

// User is somebody who may use the endpoint.
type User struct {
	Tenant string
	Hash   []byte // bcrypt
}

// Users are those who may authenticate, by name.
type Users map[string]User

// ReadUsers reads a file with lines user:tenant:hash, where hash is of bcrypt. Empty lines and those that begin with # are skipped.
func ReadUsers(path string) (Users, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the Redis endpoint's users: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the Redis endpoint's users: %w", err)
	}
	if err := trusted(path, info); err != nil {
		return nil, fmt.Errorf("read the Redis endpoint's users: %w", err)
	}
	users := make(Users)
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := users.add(line); err != nil {
			return nil, fmt.Errorf("read the Redis endpoint's users: %s, line %d: %w", path, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the Redis endpoint's users: %s: %w", path, err)
	}
	if len(users) == 0 {
		return nil, fmt.Errorf("read the Redis endpoint's users: %s names nobody, so nobody could use the endpoint", path)
	}
	return users, nil
}

// What the permissions of a file of passwords may not say: that everybody reads it, or that its group or everybody writes it.
const (
	worldReadable fs.FileMode = 0o004
	othersWrite   fs.FileMode = 0o022
)

// trusted returns an error when others could learn the hashes from the file, or make themselves a user of any tenant.
func trusted(path string, info fs.FileInfo) error {
	file, ok := info.Sys().(*syscall.Stat_t)
	switch own := os.Geteuid(); {
	case info.Mode()&worldReadable != 0:
		return fmt.Errorf("everybody may read %s: chmod o-r it", path)
	case info.Mode()&othersWrite != 0:
		return fmt.Errorf("others than its owner may write %s (mode %04o), and so make themselves a user of any tenant: chmod go-w it",
			path, info.Mode().Perm())
	case ok && file.Uid != 0 && int(file.Uid) != own:
		return fmt.Errorf("%s belongs to user %d, who could make itself a user of any tenant: have it belong to root or to the daemon's user (%d)",
			path, file.Uid, own)
	}
	return nil
}

// add adds the user of one line. Errors do not repeat the line, which holds a hash.
func (u Users) add(line string) error {
	fields := strings.SplitN(line, ":", 3)
	if len(fields) != 3 || fields[0] == "" || fields[1] == "" {
		return fmt.Errorf("a line is user:tenant:hash")
	}
	if !tenant.ValidName(fields[1]) {
		return fmt.Errorf("the tenant of user %s cannot have this name; a tenant's name is %s", fields[0], tenant.NameRule)
	}
	if _, twice := u[fields[0]]; twice {
		return fmt.Errorf("the user %s is there twice", fields[0])
	}
	if _, err := bcrypt.Cost([]byte(fields[2])); err != nil {
		return fmt.Errorf("the hash of user %s is not bcrypt's", fields[0])
	}
	u[fields[0]] = User{Tenant: fields[1], Hash: []byte(fields[2])}
	return nil
}

// HashPassword returns the hash of a password, as it stands in the file of users.
func HashPassword(password []byte) (string, error) {
	hash, err := bcrypt.GenerateFromPassword(password, bcrypt.DefaultCost)
	if err != nil {
		return "", fmt.Errorf("hash a password: %w", err)
	}
	return string(hash), nil
}

// maxPassword is how much of a password bcrypt looks at, in bytes.
const maxPassword = 72

// login checks passwords. bcrypt is slow on purpose, so one password is checked at a time, and what was right once
// is recognised by a digest with a key that only this process knows: PHP connects for every request.
type login struct {
	users Users
	key   [32]byte
	dummy []byte     // a hash that no password has, for users who are not there
	slow  sync.Mutex // held while bcrypt runs

	mu    sync.Mutex
	right map[string][sha256.Size]byte // guarded by mu: of the password that was right, by user
}

func newLogin(users Users) *login {
	l := &login{users: users, right: make(map[string][sha256.Size]byte)}
	if len(users) == 0 {
		return l
	}
	rand.Read(l.key[:])
	var unknown [16]byte
	rand.Read(unknown[:])
	hash, err := bcrypt.GenerateFromPassword(unknown[:], bcrypt.DefaultCost)
	if err != nil {
		panic("resp: bcrypt: " + err.Error())
	}
	l.dummy = hash
	return l
}

// open says whether nobody needs to authenticate.
func (l *login) open() bool { return len(l.users) == 0 }

// check returns the tenant of a user whose password this is.
func (l *login) check(user string, password []byte) (tenant string, ok bool) {
	u, known := l.users[user]
	if !known {
		u.Hash = l.dummy
	}
	if len(password) > maxPassword {
		return "", false
	}
	digest := l.digest(password)
	l.mu.Lock()
	right, had := l.right[user]
	l.mu.Unlock()
	if had && hmac.Equal(right[:], digest[:]) {
		return u.Tenant, true
	}
	l.slow.Lock()
	err := bcrypt.CompareHashAndPassword(u.Hash, password)
	l.slow.Unlock()
	if err != nil || !known {
		return "", false
	}
	l.mu.Lock()
	l.right[user] = digest
	l.mu.Unlock()
	return u.Tenant, true
}

func (l *login) digest(password []byte) (d [sha256.Size]byte) {
	h := hmac.New(sha256.New, l.key[:])
	h.Write(password)
	h.Sum(d[:0])
	return d
}
