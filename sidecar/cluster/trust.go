package cluster

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"strings"
	"time"
)

// protocol is what peers agree on in the TLS handshake. Whoever speaks another version is refused there.
const protocol = "coatcheck-peer/1"

// scheme begins the name that a node's certificate carries: coatcheck://CLUSTER/NODE.
const scheme = "coatcheck"

// trust is what this host shows to peers and what it accepts of them.
type trust struct {
	cluster  string
	protocol string
	secrets  []secret
	node     string // the name in this host's certificate
	cert     tls.Certificate
	roots    *x509.CertPool
	files    bool // certificates come from files
	ends     time.Time
}

// readTrust reads the secrets and the certificates.
func (cfg *Config) readTrust() (*trust, error) {
	secrets, err := cfg.readSecrets()
	if err != nil {
		return nil, err
	}
	t := &trust{cluster: cfg.ID, protocol: cfg.protocol, secrets: secrets, roots: x509.NewCertPool(), files: cfg.TLSCert != ""}
	if t.files {
		return t, t.readFiles(cfg)
	}
	t.node = cfg.Name
	if t.node == "" {
		t.node = hostName()
	}
	return t, t.deriveCertificates()
}

// deriveCertificates trusts the authority of each secret and has the first certify a new key.
func (t *trust) deriveCertificates() error {
	for _, s := range t.secrets {
		ca, err := s.certificate()
		if err != nil {
			return fmt.Errorf("derive the authority of a secret: %w", err)
		}
		t.roots.AddCert(ca)
	}
	ca, err := t.secrets[0].certificate()
	if err != nil {
		return fmt.Errorf("derive the authority of a secret: %w", err)
	}
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, nodeTemplate(t.node, t.cluster, always, never), ca, pub, t.secrets[0].authority)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	t.cert = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return nil
}

// Certificates that follow from a secret are as good as the secret at any time, whatever a host's clock says.
var (
	always = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	never  = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// certificate makes the authority that a secret stands for. Each host makes the same.
func (s secret) certificate() (*x509.Certificate, error) {
	template := authorityTemplate("coatcheck secret "+s.print, always, never)
	template.SerialNumber = big.NewInt(1)
	der, err := x509.CreateCertificate(rand.Reader, template, template, s.authority.Public(), s.authority)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func authorityTemplate(name string, from, until time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

func nodeTemplate(node, cluster string, from, until time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: node}, NotBefore: from, NotAfter: until,
		URIs:     []*url.URL{{Scheme: scheme, Host: cluster, Path: "/" + node}},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}

// readFiles reads this host's certificate and the authority, and checks that peers will take the one by the other.
func (t *trust) readFiles(cfg *Config) error {
	if err := checkMode(cfg.TLSKey, 0o077); err != nil {
		return fmt.Errorf("key of the certificate %w", err)
	}
	pem, err := os.ReadFile(cfg.TLSCA)
	if err != nil {
		return fmt.Errorf("certificate authority: %w", err)
	}
	if !t.roots.AppendCertsFromPEM(pem) {
		return fmt.Errorf("certificate authority %s: there is no certificate in it", cfg.TLSCA)
	}
	t.cert, err = tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", cfg.TLSCert, cfg.TLSKey, err)
	}
	t.node, err = t.verify(t.cert.Certificate)
	if err != nil {
		return fmt.Errorf("certificate %s: the peers would refuse it: %w", cfg.TLSCert, err)
	}
	if cfg.Name != "" && cfg.Name != t.node {
		return fmt.Errorf("certificate %s is for node %q, and this host is named %q", cfg.TLSCert, t.node, cfg.Name)
	}
	t.ends = t.cert.Leaf.NotAfter
	return nil
}

// verify checks a chain of certificates in DER: that it ends at an authority that this host trusts, and is for a node of the
// cluster, whose name it returns.
func (t *trust) verify(chain [][]byte) (node string, err error) {
	if len(chain) == 0 {
		return "", errors.New("there is no certificate")
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return "", err
	}
	between := x509.NewCertPool()
	for _, der := range chain[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return "", err
		}
		between.AddCert(c)
	}
	// A node both asks and answers, so its certificate must be good for both.
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: t.roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
		if err != nil {
			return "", err
		}
	}
	return nodeOf(leaf, t.cluster)
}

// nodeOf returns the name of the node that a certificate is for, if it is of the cluster.
func nodeOf(c *x509.Certificate, cluster string) (string, error) {
	for _, u := range c.URIs {
		node := strings.TrimPrefix(u.Path, "/")
		if u.Scheme == scheme && u.Host == cluster && ValidName(node) {
			return node, nil
		}
	}
	return "", fmt.Errorf("the certificate of %q is not for a node of cluster %q", c.Subject.CommonName, cluster)
}

// tls returns the configuration of connections. Both sides check the other by the same rule, so Go's check of a host's name is
// replaced: a node is known by its cluster, not by its address.
func (t *trust) tls() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{t.cert},
		NextProtos:             []string{t.protocol},
		SessionTicketsDisabled: true, // each connection proves itself anew
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // VerifyConnection verifies
		VerifyConnection: func(c tls.ConnectionState) error {
			_, err := t.proof(c)
			return err
		},
	}
}

// proof returns the name of the node that a connection's handshake has shown, or why the peer is refused.
func (t *trust) proof(c tls.ConnectionState) (node string, err error) {
	if c.NegotiatedProtocol != t.protocol {
		return "", fmt.Errorf("the peer does not speak %s", t.protocol)
	}
	chain := make([][]byte, len(c.PeerCertificates))
	for i, cert := range c.PeerCertificates {
		chain[i] = cert.Raw
	}
	return t.verify(chain)
}
