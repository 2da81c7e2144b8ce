package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"
)

// Member is a host of the member set.
type Member struct {
	ID    string    // 16 hex digits, kept in the data directory; without one, new each start
	Boot  string    // 16 hex digits, of its present run, as last heard
	Name  string    // for people
	Addr  string    // host:port of its peer connections
	Alive bool      // gossip's opinion
	Seen  time.Time // when gossip last saw it alive
}

// idDigits is the length of a node id and of a boot id.
const idDigits = 16

// newID makes a node id or a boot id.
func newID() string {
	var b [idDigits / 2]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func validID(id string) bool {
	return len(id) == idDigits && strings.Trim(id, "0123456789abcdef") == ""
}

// maxName is the length of the longest name of a cluster or a node.
const maxName = 64

// ValidName says whether a cluster or a node can have the name: it becomes a part of certificates, metrics and logs.
func ValidName(name string) bool {
	return name != "" && len(name) <= maxName &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// NameRule says in words what ValidName accepts.
const NameRule = "1 to 64 of a-z A-Z 0-9 . _ -"
