// Package config is the one place where a setting of the daemon is declared, read and explained.
//
// The model: each field of Config is one setting, and its tags say everything that the rest
// derives from: the key in the TOML file, the variable COATCHECK_*, the flag of serve, the
// default, what is allowed, docs/config.md and docs/coatcheck.example.toml. To add a setting,
// add a field with its comment and tags, and run go generate in this directory. The tags are
//
//	key      name in the file; in a section's field, the section
//	default  the default as one would write it in a variable
//	min, max the range of a number, a duration or a size
//	oneof    the words that are allowed, separated by spaces
//	accept   the forms of address that are allowed: tcp, loopback, unix
//	allow    what Validate accepts of a string, in words
//	flag     makes it a flag of serve: its line of help, beginning with its argument's name
//	later    why the setting cannot be used in this version; only empty is accepted
//
// A value comes from the default, the file, the environment or a flag; the later in this order
// wins.
//
// Guarantees: Load and Check report every problem that they find, each with its place (file and
// line, variable or flag), the key, the value given and what is allowed. A key that no setting
// has is an error, so a misspelt setting is never silently without effect. Nothing is logged or
// changed.
//
// Does not guarantee that an address can be listened on or a file opened: that is seen when the
// daemon starts. Validate asks the machine only whether users, groups and a directory exist.
//
// The tables [tenants.NAME] are one Tenant each. Their settings have no variables and no flags, for there is no
// name of a variable that could not mean two of them.
//
// Config is a plain value without locks: copy it freely, and change no Tenant of a copy.
package config

import (
	"io/fs"
	"log/slog"
	"time"
)

//go:generate go test -run ^TestDocumentsAreUpToDate$ . -update

// Config is everything that can be set. The zero Config is not valid: begin with Default.
type Config struct {
	// Socket is the path of the Unix socket that PHP and the command line connect to. Whoever
	// may write to it may use the daemon, so its mode and group are the access control.
	Socket string `key:"socket" default:"/run/coatcheck/coatcheck.sock" allow:"a path of at most 103 bytes" flag:"PATH of the Unix socket that PHP connects to"`

	// SocketMode is the permission bits of the socket, in octal. With the default, the daemon's
	// user and the socket's group may connect. More bits let more users read every session.
	SocketMode fs.FileMode `key:"socket_mode" default:"0660"`

	// SocketGroup is the group that owns the socket, usually that of the php-fpm pool. Empty
	// keeps the daemon's own group. The daemon must be a member of the group, or root.
	SocketGroup string `key:"socket_group" default:"" allow:"the name or number of a group of this machine, or empty"`

	// Data is the directory in which sessions, locks and values outlive the daemon; section
	// [journal] says how. It is made when it is missing. One daemon uses it at a time. Empty means
	// memory only: a restart of the daemon forgets everything.
	Data string `key:"data" default:"" allow:"a directory, or empty" flag:"DIR that keeps the data; empty means memory only"`

	// RESP is the address on which the daemon speaks the Redis protocol. Empty turns it off. A Unix
	// socket gets socket_mode and socket_group. An address that other machines can reach needs
	// redis.users; what is sent there is not encrypted.
	RESP Addr `key:"resp" default:"" accept:"unix tcp" flag:"ADDR of the Redis-protocol endpoint; empty means off"`

	// Admin is the address of the health, metrics and status pages. Empty turns them off.
	// Whoever reaches it sees which locks are held and by whom, of all tenants, without a password: hence only
	// a loopback address, which every user of this machine reaches, or a Unix socket, which has mode 0600 and so only root and the
	// daemon's user do. With several tenants take the latter.
	Admin Addr `key:"admin" default:"" accept:"unix loopback" flag:"ADDR of health, metrics and status, loopback only; empty means off"`

	// HTTP is the address on which the daemon serves docroot through php-fpm, for
	// demonstrations and tests; a web server does this in production. Empty turns it off. It
	// needs fpm and docroot.
	HTTP Addr `key:"http" default:"" accept:"tcp" flag:"ADDR that serves --docroot through --fpm; empty means off"`

	// FPM is the address of the php-fpm pool: what its pool file calls listen.
	FPM Addr `key:"fpm" default:"" accept:"unix tcp" flag:"ADDR of the php-fpm pool, unix:/path or host:port"`

	// FPMStatus is the address that the pool file calls pm.status_listen. It answers while all
	// workers are busy, which the pool's own address does not. Empty asks fpm instead.
	FPMStatus Addr `key:"fpm_status" default:"" accept:"unix tcp"`

	// Docroot is the directory of PHP scripts and static files that http serves.
	Docroot string `key:"docroot" default:"" allow:"a directory that exists, or empty" flag:"DIR that --http serves"`

	// LogLevel is the least severity that is logged. The lower it is, the faster the log grows;
	// debug is for finding faults.
	LogLevel slog.Level `key:"log_level" default:"info" flag:"LEVEL of the least severe lines that are logged: debug, info, warn or error"`

	// LogFormat is the form of a log line: text for people, json for programs.
	LogFormat string `key:"log_format" default:"text" oneof:"text json"`

	// DrainTimeout is how long the daemon, told to stop, lets holders commit and release before
	// it closes their connections. A stop takes up to this long while requests are open.
	DrainTimeout time.Duration `key:"drain_timeout" default:"5s" min:"0s" max:"10m"`

	// Lock is how long locks and the waits for them last.
	Lock Lock `key:"lock"`

	// Journal is how data is kept.
	Journal Journal `key:"journal"`

	// Limits is what clients may take of the daemon.
	Limits Limits `key:"limits"`

	// Memory is what sessions, locks and values may take.
	Memory Memory `key:"memory"`

	// Redis is how the Redis-protocol endpoint deals with its clients.
	Redis Redis `key:"redis"`

	// Front is how http deals with php-fpm and with browsers.
	Front Front `key:"front"`

	// Cluster is how this daemon is one of several that form one store: see docs/cluster.md. It is off while bind is empty.
	Cluster Cluster `key:"cluster"`

	// Tenants is who shares the daemon, in the order of the file. Each table is one tenant, whose name is its
	// own: 1 to 64 of a-z A-Z 0-9 _ -. Tenants see nothing of each other: equal names of sessions, locks and keys do not meet. The
	// socket at the top of the file is that of the tenant default; [tenants.default] sets its quotas and allowed_uids.
	// A quota of 0 is none. These settings cannot be given as variables.
	Tenants []Tenant `key:"tenants"`
}

// Tenant is the section [tenants.NAME].
type Tenant struct {
	// Name is NAME.
	Name string

	// Socket is the path of the Unix socket of this tenant: whoever connects there is this tenant. Empty is for
	// a tenant that has users of the Redis protocol only (redis.users). It may not be set for default.
	Socket string `key:"socket" default:"" allow:"an absolute path of at most 103 bytes that no other setting has, or empty"`

	// Mode is the permission bits of the socket, in octal, as socket_mode.
	Mode fs.FileMode `key:"mode" default:"0660"`

	// Owner is the user who owns the socket. Empty keeps the daemon's own. Only root can give it to another.
	Owner string `key:"owner" default:"" allow:"the name or number of a user of this machine, or empty"`

	// Group is the group that owns the socket, as socket_group.
	Group string `key:"group" default:"" allow:"the name or number of a group of this machine, or empty"`

	// AllowedUIDs is which users may connect to the socket, as the kernel names them (SO_PEERCRED), a list of names and
	// numbers. Others are told so and disconnected, root too. Empty lets everybody in who can open the socket. Users of the Redis
	// protocol have passwords instead.
	AllowedUIDs UIDs `key:"allowed_uids" default:""`

	// MemoryLimit is how much memory the entries of this tenant may take, in place of memory.tenant_limit. What is
	// evicted then is this tenant's own.
	MemoryLimit Size `key:"memory_limit" default:"0" min:"0" max:"16777216MiB"`

	// Connections is how many clients of this tenant may be connected at a time, by both protocols together. The next one is
	// turned away. limits.connections and redis.connections bound all tenants together.
	Connections int `key:"connections" default:"0" min:"0" max:"1000000"`

	// RequestsPerSecond is how many requests of this tenant are served in a second, by both protocols together; one second's
	// may come at once. The next one is refused and told how long to wait. What ends something (a commit, a release, a
	// renewal, the end of a request) is counted and never refused.
	RequestsPerSecond int `key:"requests_per_second" default:"0" min:"0" max:"10000000"`

	// Waiters is how many requests of this tenant may wait at a time, for locks and in kv.wait. The next one is told busy at once.
	Waiters int `key:"waiters" default:"0" min:"0" max:"1000000"`
}

// Lock is the section [lock].
type Lock struct {
	// Lease is how long a session's lock lasts unless renewed, when the client does not say. The
	// daemon renews it while the client's connection lives, so it matters for clients that
	// hang or are cut off: the longer it is, the longer others wait for such a holder.
	Lease time.Duration `key:"lease" default:"30s" min:"100ms" max:"24h"`

	// MaxHold is how long after its grant the daemon stops renewing a lock by itself; a client that
	// renews begins it anew. 0 means never renew: a lock ends with its lease. The longer it is, the
	// longer a script that never ends keeps others out.
	MaxHold time.Duration `key:"max_hold" default:"10m" min:"0s" max:"720h"`

	// MaxWaiters is how many may wait for one lock. The next one is told busy at once. Each
	// waiter is a php-fpm worker that does nothing else: keep it below the pool's size so
	// that one session cannot occupy the whole pool.
	MaxWaiters int `key:"max_waiters" default:"64" min:"1" max:"65536"`

	// MaxWait is the longest wait that a client gets, whatever it asks for: it cuts a longer coatcheck.lock_wait
	// short, which the log says once. The longer it is, the longer a worker can be occupied by one request. 0 means nobody waits.
	MaxWait time.Duration `key:"max_wait" default:"5m" min:"0s" max:"24h"`
}

// Journal is the section [journal]. It has no effect without data.
type Journal struct {
	// Fsync says what a loss of power may cost; the death of the daemon costs nothing in any case.
	// everysec: the last second. always: nothing, but each change waits for the disk, together
	// with those that come at the same time. no: what the kernel had not yet written.
	Fsync string `key:"fsync" default:"everysec" oneof:"everysec always no"`

	// Values says whether values are kept too. false keeps sessions and locks alone: the cache is
	// empty after a restart, and the disk has less to do.
	Values bool `key:"values" default:"true"`

	// SnapshotAfter is how much the journal grows, at least, before a snapshot of everything replaces it; it
	// grows to the size of the last snapshot in any case. The more it is, the rarer are snapshots, and the longer is a
	// start. The disk must have room for three times what is kept, and this.
	SnapshotAfter Size `key:"snapshot_after" default:"64MiB" min:"64KiB" max:"1048576MiB"`

	// KeyFile is the file of the keys that what is kept is sealed with (AES-256-GCM), one a line, each 64
	// hexadecimal digits. The first seals, all of them open: to change the key, put a new one first, restart,
	// and remove the old one when the log says that all files have the new one. Nobody but its owner may have
	// access to the file. Empty keeps data as it is.
	KeyFile string `key:"key_file" default:"" allow:"the absolute path of a file, or empty"`
}

// Limits is the section [limits].
type Limits struct {
	// MaxFrame is the size of the largest message that a client may send or receive, and so the
	// largest session or value, less some hundred bytes. Memory for a message is taken as it
	// arrives: each connection may use this much.
	MaxFrame Size `key:"max_frame" default:"16MiB" min:"64KiB" max:"256MiB"`

	// Connections is how many clients may be connected at a time, to all sockets together. The next one is turned away.
	// Each php-fpm worker keeps one connection, which costs the daemon a file descriptor and
	// some kilobytes: the limit of open files (ulimit -n) must be higher.
	Connections int `key:"connections" default:"10000" min:"1" max:"1000000"`

	// Unfinished is how much memory messages that have not arrived whole may take, for each tenant by itself and
	// beyond the first 4 KiB of each, and what requests keep that wait: twice the name of their key or lock. A client whose next bytes
	// do not fit is cut off; a wait that does not fit is refused. It may not be below max_frame.
	Unfinished Size `key:"unfinished" default:"256MiB" min:"1MiB" max:"65536MiB"`

	// Unread is how much memory answers that clients do not take may use, for each tenant by itself and both protocols
	// together. A client whose answer does not fit is cut off. It may not be below max_frame and redis.output_buffer. A client that
	// does not take an answer in 10 seconds is cut off in any case.
	Unread Size `key:"unread" default:"256MiB" min:"1MiB" max:"65536MiB"`

	// MessageTimeout is how long a client may take to say hello, and to finish a message or a command of the Redis protocol that
	// it began; the latter may take a second more for each MiB. A client that takes longer is cut off. The longer it is, the
	// longer clients that never finish hold memory.
	MessageTimeout time.Duration `key:"message_timeout" default:"30s" min:"100ms" max:"1h"`
}

// Memory is the section [memory].
type Memory struct {
	// Limit is how much memory all entries together may take, by the daemon's own estimate. When it is
	// reached, values are evicted to make room, those of the tenant that has the most; sessions and locks never are, and a write
	// that still does not fit is refused. The process itself needs about a third more than this. 0 means no limit.
	Limit Size `key:"limit" default:"0" min:"0" max:"16777216MiB"`

	// TenantLimit is the same for each tenant by itself that has no memory_limit of its own. 0 means no limit: one
	// tenant's sessions can then fill the memory of all.
	TenantLimit Size `key:"tenant_limit" default:"0" min:"0" max:"16777216MiB"`

	// Eviction says which values make room: lru, those that were not used for the longest, by
	// sample; volatile-ttl, those that expire soonest, and never those without expiry; noeviction,
	// none.
	Eviction string `key:"eviction" default:"lru" oneof:"lru volatile-ttl noeviction"`
}

// Redis is the section [redis]. It has no effect without resp.
type Redis struct {
	// Users is the file of those who may use the endpoint, one a line: user:tenant:hash, the hash
	// made by bcrypt. The user default is who gives a password alone. Others must not be able to
	// read the file. Empty means that nobody needs a password.
	Users string `key:"users" default:"" allow:"the absolute path of a file, or empty"`

	// Connections is how many clients may be connected at a time. The next one is turned away.
	Connections int `key:"connections" default:"10000" min:"1" max:"1000000"`

	// MaxArguments is how many arguments a command may have.
	MaxArguments int `key:"max_arguments" default:"65536" min:"16" max:"1048576"`

	// MaxCommand is the size of the largest command, and so of the largest value. Memory for a
	// command is taken as it arrives.
	MaxCommand Size `key:"max_command" default:"16MiB" min:"16KiB" max:"512MiB"`

	// Unfinished is how much memory the commands that have not arrived whole, and those between
	// MULTI and EXEC, may take on all connections of a tenant together. A client whose next bytes do not fit is
	// cut off.
	Unfinished Size `key:"unfinished" default:"256MiB" min:"1MiB" max:"65536MiB"`

	// OutputBuffer is the size of the largest reply. A command whose reply would be larger is
	// answered with an error: clients should ask for less at a time.
	OutputBuffer Size `key:"output_buffer" default:"64MiB" min:"64KiB" max:"4GiB"`

	// IdleTimeout is how long a client may be silent before it is disconnected. 0 means as long as
	// it likes. limits.message_timeout bounds how long a command may take to arrive in any case.
	IdleTimeout time.Duration `key:"idle_timeout" default:"0s" min:"0s" max:"720h"`
}

// Front is the section [front].
type Front struct {
	// Timeout is how long http waits for php-fpm to answer before it tells the browser that the
	// time is up (504).
	Timeout time.Duration `key:"timeout" default:"60s" min:"100ms" max:"24h"`

	// MaxBody is the size of the largest body that http accepts of a browser; a larger one is
	// refused (413). Bodies of unknown length are buffered first: each request may use this
	// much.
	MaxBody Size `key:"max_body" default:"32MiB" min:"1KiB" max:"4GiB"`
}

// Cluster is the section [cluster].
type Cluster struct {
	// Bind is the address and port of gossip, over TCP and UDP, by which hosts learn who is there. Empty means that this
	// daemon is alone.
	Bind Addr `key:"bind" default:"" accept:"tcp"`

	// Sessions says who decides on sessions and locks, and must be chosen. owner: the host that owns the key, by a view that a
	// majority agreed on.
	Sessions string `key:"sessions" default:"" allow:"owner, or empty when there is no cluster"`

	// ClusterID is the name of the cluster. Hosts of another one are strangers, whatever secret they have.
	ClusterID string `key:"cluster_id" default:"" allow:"1 to 64 of a-z A-Z 0-9 . _ -, or empty when there is no cluster"`

	// Name is what people call this host, in lists and logs. Empty takes that of the certificate, or the machine's.
	Name string `key:"name" default:"" allow:"1 to 64 of a-z A-Z 0-9 . _ -, or empty"`

	// Advertise is the address and port at which the others reach bind. It is never guessed.
	Advertise Addr `key:"advertise" default:"" accept:"tcp"`

	// PeerBind is the address and port of the connections between the daemons, over TCP: all that is not gossip.
	PeerBind Addr `key:"peer_bind" default:"" accept:"tcp"`

	// PeerAdvertise is the address and port at which the others reach peer_bind. Empty takes the host of advertise and
	// the port of peer_bind.
	PeerAdvertise Addr `key:"peer_advertise" default:"" accept:"tcp"`

	// Join is where gossip of some other hosts is, a list of host:port. A name is looked up each time and may have several addresses. Seeds and
	// hosts that were there before are tried every ten seconds. This host itself may be among them.
	Join List `key:"join" default:""`

	// Expect is how many hosts there are to be. A majority is more than half of this or of all that have joined, whichever is
	// more, so the first host does not take itself for one. With too high a number nothing is served; 0 counts those that have joined.
	Expect int `key:"expect" default:"0" min:"0" max:"64"`

	// SecretFile is the file of the secrets that all hosts share, one a line: the first is used, all are accepted, so that it can
	// be changed. Nobody but its owner may have access to it.
	SecretFile string `key:"secret_file" default:"" allow:"the absolute path of a file, or empty when there is no cluster"`

	// TLSCert is the file of this host's certificate (coatcheck tls). With tls_key and tls_ca only hosts with a
	// certificate of that authority get in; without them whoever has the secret.
	TLSCert string `key:"tls_cert" default:"" allow:"the absolute path of a file, or empty"`

	// TLSKey is the file of the certificate's key.
	TLSKey string `key:"tls_key" default:"" allow:"the absolute path of a file, or empty"`

	// TLSCA is the file of the authority's certificate.
	TLSCA string `key:"tls_ca" default:"" allow:"the absolute path of a file, or empty"`

	// Ack says when a change of a session or lock is acknowledged. backup: when the host that takes over if this one dies has it
	// too. owner: when its owner has it, which is faster and loses the last changes of a host that dies.
	Ack string `key:"ack" default:"backup" oneof:"backup owner"`

	// AckTimeout is how long the copy may take. Then the change is acknowledged without it, which is counted and logged. The
	// longer it is, the longer everybody waits while a host is in trouble.
	AckTimeout time.Duration `key:"ack_timeout" default:"50ms" min:"1ms" max:"10s"`

	// Minority says what one of two hosts does when the other is gone, for one is no majority of two. refuse: nothing is
	// served until it is back. serve: it goes on alone; if both live and only the way between them is cut, both do, and a lock can have two holders.
	Minority string `key:"minority" default:"refuse" oneof:"refuse serve"`
}

// Tenant returns the settings of the named tenant; those of one that no table names are the defaults.
func (c Config) Tenant(name string) Tenant {
	for _, t := range c.Tenants {
		if t.Name == name {
			return t
		}
	}
	return newTenant(name)
}

// Default returns the settings of a daemon to which nothing was said.
func Default() Config {
	return newLoader().config
}

// Validate returns nil, or every reason why the daemon cannot run with c, joined, one sentence
// each. Load has validated what it returns; Validate is for settings made in Go.
func (c Config) Validate() error {
	l := newLoader()
	l.config = c
	l.validate()
	return l.err()
}
