package store

// Op says what a command does.
type Op uint8

// The commands, by the fields they use beside Now, Space and Key.
const (
	OpSessionOpen    Op = iota // Token (empty: take no lock), Lease, Who → Value, Found, Fence, Locked; Busy, Holder
	OpSessionCommit            // Token, Fence, Value or Touch, TTL, Release → Done, Released; Refused
	OpSessionRelease           // Token → Done
	OpSessionLapse             // Token → Done; ends the lease, the holder may still write while nobody else came
	OpSessionRenew             // Token, Lease → Done, Fence; Refused
	OpSessionDestroy           // Token → Found, Released
	OpSessionExists            // → Found
	OpSessionForce             // → Done; ends whoever's lease it is

	OpLockAcquire // Token, Lease (0: no expiry), Shared, Bound, Who → Fence; Busy, Holder
	OpLockRenew   // Token, Lease → Fence; Refused
	OpLockRelease // Token → Done
	OpLockInfo    // Token → Found, Done (held by Token), Locks
	OpLockForce   // → Done

	OpGet        // → Value, Found
	OpSet        // Value, TTL, If, Match, KeepTTL → Done, and the old Value, Found
	OpDel        // If (IfEqual), Match → Done
	OpGetDel     // → Value, Found
	OpExpire     // TTL (0: persist), If (IfEqual), Match → Done
	OpTTL        // → Found, N (milliseconds left; -1: no expiry)
	OpIncr       // Delta, TTL (for a new key), If (IfPresent), Floor → Found, N; Refused
	OpAppend     // Value, Limit (of the length) → N (length); Refused
	OpVersion    // → Value, Found, Version, N (milliseconds to its expiry; -1: none)
	opSingleKeys // commands above have one key; those below have none

	OpScan        // Match (prefix), Cursor, Limit → Keys, Cursor
	OpFlush       // → Done; every value of the space
	OpListLocks   // Match (prefix of the name), Limit → Locks; named locks of the space
	OpListHeld    // Limit → Locks; every held lock, sessions' included, of every space
	OpListSession // Limit → Sessions; of every space
	OpStats       // → Stats
	OpSweep       // Cursor (shard), Limit → N (entries dropped)
)

// A Space is a keyspace: one bucket of one tenant. Values, sessions and named locks of a space do not meet.
type Space struct{ Tenant, Bucket string }

// Condition says when a set, delete, expire or increment applies.
type Condition uint8

const (
	Always    Condition = iota
	IfAbsent            // the key is missing or expired
	IfPresent           // the key exists
	IfEqual             // the value is exactly Command.Match
)

// Who describes a client to others: in warnings, logs and lists. It decides nothing.
type Who struct {
	PID    int    // as the kernel says
	SAPI   string // PHP's, or the command's name
	Script string // the path of the running script
}

// Command is one command. The store keeps no slice of it: what it stores it copies.
type Command struct {
	Op    Op
	Now   int64 // the deciding node's time, milliseconds since 1970; never goes back
	Space Space
	Key   []byte // key, session id or lock name

	Token []byte // who asks; 1 to 255 bytes
	Fence uint64 // of the grant that the write belongs to
	Lease int64  // milliseconds
	TTL   int64  // milliseconds
	Who   *Who   // shared, never modified

	Value []byte
	Match []byte // the value to compare with, or a prefix
	Delta int64
	Floor *int64 // least result of a decrement; nil: none
	If    Condition

	Touch, Release, KeepTTL, Shared, Bound bool

	Cursor uint64 // where a scan goes on; 0 begins and ends
	Limit  int    // entries, or bytes
}

// Status is how a command ended.
type Status uint8

const (
	OK      Status = iota
	Busy           // another holds the lock: Result.Holder
	Refused        // Result.Reason says why; nothing was changed
)

// Reason says why a command was refused. The names are those of the protocol.
type Reason uint8

const (
	NoReason   Reason = iota
	Superseded        // the lock was granted to another since
	Destroyed         // the session was destroyed after it was read
	Forgotten         // the store no longer knows who came after this grant
	NotHolder         // this token does not hold the lock
	NotInteger        // the value is not a decimal 64-bit integer
	Overflow          // the result would not fit in 64 bits
	TooLong           // the value would be longer than Command.Limit; Result.N is its length
)

func (r Reason) String() string {
	return [...]string{"", "superseded", "destroyed", "forgotten", "not_holder", "not_integer", "overflow", "too_long"}[r]
}

// Hold describes one holder of a lock.
type Hold struct {
	Token string
	Fence uint64
	Since int64 // time of the grant, ms
	Until int64 // end of the lease, ms; 0: none
	Bound bool
	Who   Who
}

// LockInfo describes a held lock.
type LockInfo struct {
	Space   Space
	Name    string
	Session bool // the lock of a session id
	Shared  bool
	Holds   []Hold
}

// SessionInfo describes a session record.
type SessionInfo struct {
	Space     Space
	ID        string
	Size      int   // bytes
	ExpiresAt int64 // ms
	Locked    bool
}

// Stats counts what is there.
type Stats struct {
	Values, Sessions int // those whose time is up are counted until a sweep or a read drops them
	Locks            int // held ones, sessions' included
}

// Result is a command's answer. Value belongs to the store and must not be modified.
type Result struct {
	Status   Status
	Reason   Reason
	Done     bool // the change asked for was made
	Found    bool // there was an entry
	Locked   bool // the session's lock was granted
	Released bool
	Value    []byte
	N        int64
	Fence    uint64
	Version  uint64
	Cursor   uint64
	Holder   *Hold // who is in the way
	Keys     []string
	Locks    []LockInfo
	Sessions []SessionInfo
	Stats    Stats
}

func refused(why Reason) Result { return Result{Status: Refused, Reason: why} }
