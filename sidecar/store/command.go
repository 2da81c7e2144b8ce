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

	OpGet       // → Value, Found
	OpStrlen    // → Found, N
	OpSet       // Value, TTL or At, KeepTTL, If, Match, WantOld → Done, Found (before), the old Value when wanted; Refused
	OpDel       // If (IfEqual, IfNotEqual), Match → Found, Done
	OpGetDel    // → Value, Found
	OpExpire    // TTL or At (neither: persist), Expiry, If (IfEqual), Match, WantOld → Found (and the conditions are met), Done, the Value when wanted; Refused
	OpTTL       // → Found, N (milliseconds left; -1: no expiry), Hash
	OpIncr      // Delta, TTL or At (of a new key), If (IfPresent), Floor → Found, N; Refused
	OpIncrFloat // Value (a decimal number, to be added) → Value; Refused
	OpAppend    // Value, Limit (of the length) → N (length); Refused
	OpVersion   // → Value, Found, Version, N (milliseconds to its expiry; -1: none)

	OpHashSet  // Pairs (names and values) → N (new fields); Refused
	OpHashGet  // Pairs (names) → Found, Values
	OpHashDel  // Pairs (names) → N (removed fields)
	OpHashAll  // → Found, N, Keys, Values
	OpHashLen  // → Found, N
	OpHashIncr // Pairs (one name), Delta → N; Refused

	opSingleKeys // commands above have one key; those below have more, or none

	OpBatch       // Batch (of the above, and OpFlush), If (IfAbsent), Limit (of bytes to uncompress), OneStep → Done, Batch; one step here
	OpRename      // NewKey, If (IfAbsent) → Found, Done
	OpScan        // Match (prefix), Cursor, Limit, Only → Keys, Cursor
	OpRandomKey   // Cursor (any number), Only → Found, Keys
	OpFlush       // Only → Done; every value of the space
	OpListLocks   // Match (prefix of the name), Limit, Only → Locks; named locks of the space
	OpListHeld    // Match (prefix of the name), Limit, Only → Locks; held ones, sessions' included, of the tenant or (empty) of all
	OpListSession // Match (prefix of the id), Limit, Only → Sessions; of the tenant or (empty) of all
	OpListSpaces  // Only → Spaces
	OpStats       // Only → Stats; of the tenant or (empty) of all
	OpSweep       // Cursor (shard), Limit → N (entries dropped)
)

// Changes says whether commands of this kind can change what a reader may be told later. A sweep does not: what it drops is over.
func (op Op) Changes() bool {
	switch op {
	case OpSessionExists, OpLockInfo, OpGet, OpStrlen, OpTTL, OpVersion, OpHashGet, OpHashAll, OpHashLen,
		OpScan, OpRandomKey, OpListLocks, OpListHeld, OpListSession, OpListSpaces, OpStats, OpSweep:
		return false
	}
	return true
}

// Frees says whether a lock, the command's, may be granted to others now that the command ended with r.
func (c *Command) Frees(r *Result) bool {
	switch c.Op {
	case OpSessionCommit, OpSessionDestroy:
		return r.Released
	case OpSessionRelease, OpSessionLapse, OpSessionForce, OpLockRelease, OpLockForce:
		return r.Done
	case OpLockAcquire: // others may share it now
		return c.Shared && r.Status == OK
	}
	return false
}

// ChangesString says whether commands of this kind can give their key's string another version.
func (op Op) ChangesString() bool {
	switch op {
	case OpSet, OpDel, OpGetDel, OpIncr, OpIncrFloat, OpAppend, OpExpire, OpRename:
		return true
	}
	return false
}

// OfSession says whether a command of this kind is about a session and its lock.
func (op Op) OfSession() bool { return op <= OpSessionForce }

// A Space is a keyspace: one bucket of one tenant. Values, sessions and named locks of a space do not meet.
type Space struct{ Tenant, Bucket string }

// Condition says when a set, delete, expire or increment applies.
type Condition uint8

const (
	Always     Condition = iota
	IfAbsent             // the key is missing or expired
	IfPresent            // the key exists
	IfEqual              // the value is exactly Command.Match
	IfNotEqual           // the key exists and its value is not Command.Match
)

// ExpiryCondition says when an OpExpire applies, beside its Condition.
type ExpiryCondition uint8

const (
	AnyExpiry      ExpiryCondition = iota
	IfNoExpiry                     // the key has no expiry
	IfExpiry                       // it has one
	IfLater                        // the new expiry is later than the one it has
	IfSooner                       // the new expiry is sooner; no expiry is the latest of all
	IfSoonerExpiry                 // it has an expiry, and the new one is sooner
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
	TTL   int64  // milliseconds; 0 or less: none
	At    int64  // an expiry as time, ms since 1970, in place of TTL; what has passed removes the value
	Who   *Who   // shared, never modified

	Value []byte
	Match []byte // the value to compare with, or a prefix
	Delta int64
	Floor *int64 // least result of a decrement; nil: none
	If    Condition

	Expiry ExpiryCondition
	Pairs  [][]byte  // names of fields, or names and values in turn
	NewKey []byte    // of OpRename
	Batch  []Command // their Now is set from this command's

	Only *ShardSet // the shards that a scan, list, count or flush is about; nil: all

	Touch, Release, KeepTTL, Shared, Bound bool
	OneStep                                bool // a batch that may not be divided, wherever its keys are owned
	WantOld                                bool // the old value is wanted, so it must be a string; of a session, also when the lock is another's, to go on without it
	Queued                                 bool // others wait for the lock: it is granted to none but a token that has it already

	packed []byte // Value, compressed

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
	TooLong           // the value, or what is to be uncompressed of a batch, is longer than Command.Limit; Result.N is its length
	WrongType         // the key holds a hash where a string is needed, or the other way round
	NotFloat          // the value is not a number
	NotFinite         // the result would not be a finite number
	Full              // memory does not suffice: Result.N bytes are needed, Stats.Bytes of Stats.Limit used

	lastReason = Full
)

func (r Reason) String() string {
	return [...]string{"", "superseded", "destroyed", "forgotten", "not_holder", "not_integer", "overflow", "too_long",
		"wrong_type", "not_float", "not_finite", "full"}[r]
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

// SpaceInfo says what is in a space. Entries whose time is up count until a sweep or a read drops them.
type SpaceInfo struct {
	Space            Space
	Values, Sessions int
	Expiring         int   // values with an expiry
	Bytes            int64 // estimated memory
}

// Stats counts what is there.
type Stats struct {
	Values, Sessions int   // those whose time is up are counted until a sweep or a read drops them
	Locks            int   // held ones, sessions' included
	Bytes            int64 // estimated memory
	Limit            int64 // of Bytes; 0: none
	Own              bool  // Limit is the tenant's own, not that of all
	Evicted          int64 // values, since the start
}

// Result is a command's answer. Value belongs to the store and must not be modified.
type Result struct {
	Status   Status
	Reason   Reason
	Done     bool // the change asked for was made
	Found    bool // there was an entry
	Locked   bool // the session's lock was granted
	Released bool
	Changed  bool // a record of a change was handed to the sink
	Value    []byte
	N        int64
	Fence    uint64
	Version  uint64
	Cursor   uint64
	Holder   *Hold // who is in the way
	Hash     bool  // the key holds a hash
	Keys     []string
	Values   [][]byte
	Batch    []Result
	Spaces   []SpaceInfo
	Locks    []LockInfo
	Sessions []SessionInfo
	Stats    Stats

	plain int // length of Value before it was compressed; 0: it is not
}

func refused(why Reason) Result { return Result{Status: Refused, Reason: why} }
