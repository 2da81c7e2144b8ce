package journal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrKey is returned when a file is sealed with a key that is not there. The file is not damaged.
var ErrKey = errors.New("the key is missing")

// Keys are what a journal is sealed with: new files with the first, and files that exist are read with the one that they name.
// A nil *Keys means that nothing is sealed.
type Keys struct {
	ids  []keyID
	keys map[keyID][]byte
}

// keyID names a key without telling it.
type keyID [8]byte

var noKey keyID

func (id keyID) String() string { return hex.EncodeToString(id[:]) }

const keySize = 32

// LoadKeys reads a file of keys, one a line as 64 hexadecimal digits; empty lines and those that begin with # do not count. Nobody
// but the file's owner may have access to it.
func LoadKeys(path string) (*Keys, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if info.Mode()&0o077 != 0 {
		return nil, fmt.Errorf("key file %s: others than its owner have access to it (mode %04o): chmod 600 it, and consider its keys known", path, info.Mode()&fs.ModePerm)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	k := &Keys{keys: make(map[keyID][]byte)}
	number := 0
	for line := range bytes.Lines(b) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, err := hex.DecodeString(string(line))
		if err != nil || len(key) != keySize { // err would quote the key
			return nil, fmt.Errorf("key file %s, line %d: a key is %d hexadecimal digits, as of: openssl rand -hex %d", path, number, 2*keySize, keySize)
		}
		k.add(key)
	}
	if len(k.ids) == 0 {
		return nil, fmt.Errorf("key file %s: there is no key in it", path)
	}
	return k, nil
}

func (k *Keys) add(key []byte) {
	var id keyID
	copy(id[:], derive(key, nil, "coatcheck journal, id of a key", len(id)))
	k.ids = append(k.ids, id)
	k.keys[id] = key
}

// derive makes a key, or an id, that tells nothing of the key it comes from.
func derive(key, salt []byte, purpose string, size int) []byte {
	b, err := hkdf.Key(sha256.New, key, salt, purpose, size)
	if err != nil {
		panic("journal: derive a key: " + err.Error()) // only for impossible sizes
	}
	return b
}

// current returns the id of the key that new files are sealed with.
func (k *Keys) current() keyID {
	if k == nil {
		return noKey
	}
	return k.ids[0]
}

// aead returns the cipher of a file, whose key nothing else is sealed with.
func (k *Keys) aead(h head) (cipher.AEAD, error) {
	if k == nil {
		return nil, fmt.Errorf("%w: the file is sealed with key %s, and no key file is given (journal.key_file)", ErrKey, h.key)
	}
	key := k.keys[h.key]
	if key == nil {
		return nil, fmt.Errorf("%w: the file is sealed with key %s, which is not in the key file; add it there, behind the first", ErrKey, h.key)
	}
	block, err := aes.NewCipher(derive(key, h.salt[:], "coatcheck journal, key of a file", keySize))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
