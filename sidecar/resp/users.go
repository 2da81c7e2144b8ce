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

// maxGuesses is how many passwords of one user may wait to be checked.
const maxGuesses = 8

// errManyGuesses refuses a password that is one too many to wait.
const errManyGuesses failure = "ERR too many passwords of this user wait to be checked; try again in a second"

// login checks passwords. bcrypt is slow on purpose, so one password is checked at a time, and what was right once
// is recognised by a digest with a key that only this process knows: PHP connects for every request. Those who send the same password
// of a user at the same time wait for one check. Few different ones may wait, for each user by itself: who guesses one user's
// keeps the others waiting a little, and never out.
type login struct {
	users Users
	key   [32]byte
	dummy []byte          // a hash that no password has, for users who are not there
	slow  chan struct{}   // has room for one; filled while bcrypt runs
	stop  <-chan struct{} // closed when nothing is checked any more

	mu      sync.Mutex
	right   map[string]digestOfPassword            // guarded by mu: of the password that was right, by user
	guesses map[string]map[digestOfPassword]*guess // guarded by mu: those that wait, by user; of users who are not there under ""
}

type digestOfPassword [sha256.Size]byte

// guess is a password that is being checked.
type guess struct {
	waiting        int  // for it; guarded by login.mu
	checked, right bool // who has filled login.slow may touch them
}

func newLogin(users Users, stop <-chan struct{}) *login {
	l := &login{
		users: users, slow: make(chan struct{}, 1), stop: stop,
		right: make(map[string]digestOfPassword), guesses: make(map[string]map[digestOfPassword]*guess),
	}
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

// check returns the tenant of a user whose password this is, or why not. It gives up when abandoned says why, which it asks when it is the password's turn.
func (l *login) check(user string, password []byte, abandoned func() failure) (tenant string, f failure) {
	u, known := l.users[user]
	if !known {
		user, u.Hash = "", l.dummy
	}
	if len(password) > maxPassword {
		return "", errWrongPass
	}
	d := l.digest(password)
	g, f := l.join(user, d)
	if g == nil {
		return u.Tenant, f
	}
	defer l.part(user, d, g)
	select {
	case l.slow <- struct{}{}:
		defer func() { <-l.slow }()
	case <-l.stop:
		return "", errStopping
	}
	if f := abandoned(); f != "" {
		return "", f
	}
	if !g.checked {
		g.checked, g.right = true, bcrypt.CompareHashAndPassword(u.Hash, password) == nil && known
	}
	if !g.right {
		return "", errWrongPass
	}
	l.remember(user, d)
	return u.Tenant, ""
}

// join waits for the check of a password together with others who sent it. It returns nil when there is nothing to wait for: the
// password was right once, or the failure says why it cannot wait.
func (l *login) join(user string, d digestOfPassword) (*guess, failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if right, had := l.right[user]; had && hmac.Equal(right[:], d[:]) {
		return nil, ""
	}
	all := l.guesses[user]
	if all == nil {
		all = make(map[digestOfPassword]*guess)
		l.guesses[user] = all
	}
	g := all[d]
	if g == nil {
		if len(all) >= maxGuesses {
			return nil, errManyGuesses
		}
		g = &guess{}
		all[d] = g
	}
	g.waiting++
	return g, ""
}

// part ends what join began.
func (l *login) part(user string, d digestOfPassword, g *guess) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.waiting--; g.waiting == 0 {
		delete(l.guesses[user], d)
	}
}

func (l *login) remember(user string, d digestOfPassword) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.right[user] = d
}

func (l *login) digest(password []byte) (d digestOfPassword) {
	h := hmac.New(sha256.New, l.key[:])
	h.Write(password)
	h.Sum(d[:0])
	return d
}
