package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

// Config is what a Cluster needs to know. Only ID, Bind, Advertise, PeerBind and a secret have no default.
type Config struct {
	ID   string // of the cluster, as NameRule says; hosts of another one are strangers
	Name string // of this host, for people; default: the certificate's, else the host's name
	Dir  string // existing directory for the node id and the member set; empty: memory only, and a new id each start

	// Bind is the ip:port of gossip, TCP and UDP. Advertise is the host:port at which the others reach it. It is never
	// guessed; a name is looked up once, port 0 means Bind's.
	Bind, Advertise string

	// PeerBind is the ip:port of the peer connections, TCP. PeerAdvertise is the host:port at which the others reach it; empty:
	// Advertise's host with PeerBind's port.
	PeerBind, PeerAdvertise string

	Join []string // host:port of gossip of some hosts; a name is looked up each time and may have several addresses

	// SecretFile has one secret a line, of 16 bytes or more: the first is used, all are accepted, so that it can be changed host by
	// host. Nobody but its owner may have access to it. Secrets are used where there is no file.
	SecretFile string
	Secrets    []string

	TLSCert, TLSKey, TLSCA string // files in PEM; all or none: then certificates follow from the secret

	MaxFrame   int // bytes of the largest question or answer; 0: 32 MiB. Between two hosts the smaller one counts
	MaxQueue   int // questions to one peer that wait to be written; 0: 4,096
	MaxServing int // questions of one peer that are served at a time; the next is refused. 0: 1,024

	DialTimeout  time.Duration // of connecting, and again of the handshake; 0: 3 s
	WriteTimeout time.Duration // how long a peer may take to accept what is written; 0: 5 s
	Silence      time.Duration // a connection on which nothing came for so long is given up, three pings notwithstanding; 0: 5 s
	RejoinEvery  time.Duration // how often seeds and members that are not alive are tried; 0: 10 s

	Log    *slog.Logger
	Random func() float64 // in [0, 1), spreads reconnects; nil: math/rand
	Now    func() time.Time

	tune     func(*memberlist.Config) // tests are in more of a hurry than a LAN
	protocol string                   // tests speak other versions
}

const (
	minSecret = 16      // bytes: 128 bits when each bit is random
	minFrame  = 1 << 20 // bytes: a member set must fit
	maxFrame  = 1 << 30 // bytes: the length has 32 bits, and int may have as few
)

// withDefaults returns the configuration as it is used, or what is wrong with it.
func (cfg Config) withDefaults() (Config, error) {
	setDefault(&cfg.MaxFrame, 32<<20)
	setDefault(&cfg.MaxQueue, 4096)
	setDefault(&cfg.MaxServing, 1024)
	setDefault(&cfg.DialTimeout, 3*time.Second)
	setDefault(&cfg.WriteTimeout, 5*time.Second)
	setDefault(&cfg.Silence, 5*time.Second)
	setDefault(&cfg.RejoinEvery, 10*time.Second)
	setDefault(&cfg.protocol, protocol)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return cfg, cfg.check()
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (cfg *Config) check() error {
	switch {
	case !ValidName(cfg.ID):
		return fmt.Errorf("the cluster id is %q, must be %s", cfg.ID, NameRule)
	case cfg.Name != "" && !ValidName(cfg.Name):
		return fmt.Errorf("the node's name is %q, must be %s", cfg.Name, NameRule)
	case cfg.Advertise == "":
		return errors.New("no address to advertise: it is never guessed, give the host:port at which the other hosts reach this one")
	case cfg.MaxFrame < minFrame || cfg.MaxFrame > maxFrame:
		return fmt.Errorf("the largest frame is %d bytes, must be %d to %d", cfg.MaxFrame, minFrame, maxFrame)
	case (cfg.TLSCert == "") != (cfg.TLSKey == "") || (cfg.TLSCert == "") != (cfg.TLSCA == ""):
		return errors.New("of the certificate, its key and the authority some are given and some not: give all three files, or none")
	case cfg.MaxQueue < 0 || cfg.MaxServing < 0 || cfg.DialTimeout < 0 || cfg.WriteTimeout < 0 || cfg.Silence < 0 || cfg.RejoinEvery < 0:
		return errors.New("limits and times cannot be negative")
	}
	for _, seed := range cfg.Join {
		if _, _, err := net.SplitHostPort(seed); err != nil {
			return fmt.Errorf("join %q: must be host:port", seed)
		}
	}
	return nil
}

// hostName returns the host's name without what a name cannot have.
func hostName() string {
	name, _ := os.Hostname()
	name, _, _ = strings.Cut(name, ".")
	if !ValidName(name) {
		return "node"
	}
	return name
}

// bindAddress reads an ip:port to listen on.
func bindAddress(what, addr string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		return a, fmt.Errorf("%s %q: must be ip:port", what, addr)
	}
	return a, nil
}

// advertised returns the ip:port of a host:port that others are told.
func advertised(addr string, boundPort int) (netip.AddrPort, error) {
	t, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("advertise %q: %w", addr, err)
	}
	ip, _ := netip.AddrFromSlice(t.IP)
	ip = ip.Unmap()
	if !ip.IsValid() || ip.IsUnspecified() {
		return netip.AddrPort{}, fmt.Errorf("advertise %q: the other hosts cannot reach that, give this host's address", addr)
	}
	port := uint16(t.Port)
	if port == 0 {
		port = uint16(boundPort)
	}
	return netip.AddrPortFrom(ip, port), nil
}
