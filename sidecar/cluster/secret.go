package cluster

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrSecret is returned when there is no usable secret.
var ErrSecret = errors.New("a secret is needed")

// NewSecret makes a secret that cannot be guessed.
func NewSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// secret is what a cluster's hosts share. It prints as its fingerprint.
type secret struct {
	gossipKey []byte
	authority ed25519.PrivateKey
	print     string
}

func (s secret) String() string { return s.print }

// derive makes the keys of a secret. They differ from cluster to cluster.
func derive(text, cluster string) (secret, error) {
	if len(text) < minSecret {
		return secret{}, fmt.Errorf("%w: one of %d bytes is too short, it must have %d or more; make one with: coatcheck cluster secret", ErrSecret, len(text), minSecret)
	}
	key := func(purpose string, size int) []byte {
		b, err := hkdf.Key(sha256.New, []byte(text), []byte(cluster), "coatcheck cluster, "+purpose, size)
		if err != nil {
			panic("cluster: derive a key: " + err.Error()) // only for impossible sizes
		}
		return b
	}
	return secret{
		gossipKey: key("key of gossip", 32),
		authority: ed25519.NewKeyFromSeed(key("seed of the authority", ed25519.SeedSize)),
		print:     hex.EncodeToString(key("fingerprint", 4)),
	}, nil
}

// deriveAll makes the keys of several secrets, of which each counts once.
func deriveAll(texts []string, cluster string) (all []secret, err error) {
	seen := make(map[string]bool)
	for _, text := range texts {
		if seen[text] {
			continue
		}
		seen[text] = true
		s, err := derive(text, cluster)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: none is given; make one with: coatcheck cluster secret", ErrSecret)
	}
	return all, nil
}

// readSecrets reads the secrets of a file, or those of the configuration when there is no file.
func (cfg *Config) readSecrets() ([]secret, error) {
	if cfg.SecretFile == "" {
		return deriveAll(cfg.Secrets, cfg.ID)
	}
	if err := checkMode(cfg.SecretFile, 0o077); err != nil {
		return nil, fmt.Errorf("secret file %w", err)
	}
	b, err := os.ReadFile(cfg.SecretFile)
	if err != nil {
		return nil, fmt.Errorf("secret file: %w", err)
	}
	var texts []string
	for line := range bytes.Lines(b) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			texts = append(texts, string(line))
		}
	}
	all, err := deriveAll(texts, cfg.ID)
	if err != nil {
		return nil, fmt.Errorf("secret file %s: %w", cfg.SecretFile, err)
	}
	return all, nil
}

// checkMode refuses a file to which others have access.
func checkMode(path string, others fs.FileMode) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode()&others != 0 {
		return fmt.Errorf("%s: others than its owner have access to it (mode %04o): chmod 600 it, and consider it known", path, info.Mode()&fs.ModePerm)
	}
	return nil
}
