package cluster

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	authorityFile    = "ca.pem"
	authorityKeyFile = "ca-key.pem"

	// clockSlack is how far behind the clock of a host may be that is to accept a certificate of now.
	clockSlack = time.Hour
)

// MakeAuthority makes a certificate authority in a directory: ca.pem, which goes to every host, and ca-key.pem, which
// does not and whose holder can make nodes of any cluster that trusts it. It overwrites nothing.
func MakeAuthority(dir string, now time.Time, lifetime time.Duration) error {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	template := authorityTemplate("coatcheck", now.Add(-clockSlack), now.Add(lifetime))
	der, err := x509.CreateCertificate(rand.Reader, template, template, pub, key)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	return writePair(filepath.Join(dir, authorityFile), der, filepath.Join(dir, authorityKeyFile), key)
}

// MakeNode makes a certificate for a node of a cluster by the authority in a directory, beside it: NAME.pem and NAME-key.pem. It
// overwrites nothing.
func MakeNode(dir, name, cluster string, now time.Time, lifetime time.Duration) error {
	if !ValidName(name) || !ValidName(cluster) {
		return fmt.Errorf("node %q of cluster %q: both names must be %s", name, cluster, NameRule)
	}
	ca, err := tls.LoadX509KeyPair(filepath.Join(dir, authorityFile), filepath.Join(dir, authorityKeyFile))
	if err != nil {
		return fmt.Errorf("read the authority: %w", err)
	}
	if now.Add(lifetime).After(ca.Leaf.NotAfter) {
		return fmt.Errorf("the authority ends on %s, before the certificate would", ca.Leaf.NotAfter.Format(time.DateOnly))
	}
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, nodeTemplate(name, cluster, now.Add(-clockSlack), now.Add(lifetime)), ca.Leaf, pub, ca.PrivateKey)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	return writePair(filepath.Join(dir, name+".pem"), der, filepath.Join(dir, name+"-key.pem"), key)
}

// writePair writes a certificate and its key, both or none.
func writePair(certPath string, der []byte, keyPath string, key ed25519.PrivateKey) error {
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode a key: %w", err)
	}
	if err := writeNew(keyPath, &pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}); err != nil {
		return err
	}
	if err := writeNew(certPath, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
		os.Remove(keyPath)
		return err
	}
	return nil
}

// writeNew writes a file that must not exist.
func writeNew(path string, block *pem.Block) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists, and is not overwritten", path)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(pem.Encode(f, block), f.Sync(), f.Close()); err != nil {
		os.Remove(path)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
