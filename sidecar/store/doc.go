// Package store is the state of coatcheck: values, sessions, locks and their fences.
//
// It is a deterministic state machine with one entry point, [Store.Apply]. The time and all
// randomness (tokens) arrive in the command; the store reads no clock, does no I/O and knows of no
// network. The same commands on one key in the same order give the same results.
//
// # Model
//
// A key lives in a [Space], a bucket of one tenant, and in one of 256 shards, chosen by a hash of
// the key alone, so that a session and its lock share a shard. A command on one key is one
// critical section under its shard's mutex. No lock is held across a call-out, and only a flush
// takes more than one shard's mutex (in ascending order).
//
// # Fences and versions
//
// Each shard issues stamps: 63-bit numbers that grow with every issue and never fall behind
// the command's time in milliseconds shifted left by 16 bits (a hybrid logical clock after Kulkarni
// and others, 2014, with the counter carried in the low bits). A grant's fence and a value's version are stamps, so they keep growing
// over a restart that lost the state.
//
// # Guarantees
//
//   - While a lock is held, nobody else is granted it.
//   - Release, renewal and commit compare the token, byte by byte, and act in the same step.
//   - A session write whose lock was granted to another since, or whose session was destroyed since it
//     was read, is refused and changes nothing. What the store has forgotten it refuses: see shard.forgotten.
//
// # Does not guarantee
//
//   - That a listing or scan is a snapshot: it visits shard after shard.
package store
