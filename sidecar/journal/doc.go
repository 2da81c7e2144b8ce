// Package journal makes a store durable in one directory: an append log of the store's records in segments, and
// snapshots that replace old segments.
//
// # Model
//
// The store hands over a record of each change while it holds the entry's shard, so the log's order of one key
// is its order of changes. Commit returns when all that the caller's command changed is with the
// kernel, or on the disk when Fsync is Always; commits that meet share one write and one fsync.
//
//	DIR/LOCK                      held by the daemon that uses the directory
//	DIR/journal-0000000000000007  a segment: a head, records, and an end mark in all but the last
//	DIR/snapshot-0000000000000007 all entries; segment 7 and those after it complete it
//
// Each start begins a segment, so nothing is ever appended to a file that another process wrote.
//
// # Guarantees
//
//   - What was committed survives the death of the process; a loss of power costs nothing with Always, the
//     last second and an fsync's time at most with EverySec.
//   - A torn record at the very end of the last segment is dropped, with a line in the log. Damage anywhere else stops Open, with
//     the file, the offset and the command that repairs: nothing is skipped silently. So does a file that is missing before the last segment.
//   - When the disk fails or is full, Ready says so until a retry succeeds; what was taken before is written then. After a
//     failed fsync it is a snapshot in new files that ends the failure: no fsync of the old ones is believed.
//   - With Keys, records are sealed by AES-256-GCM, each file under a key of its own, derived from one that the file names and
//     a random salt, and no nonce is used twice. A missing key is told apart from damage.
//
// # Does not guarantee
//
//   - That a command whose Commit failed did not happen: its outcome is unknown.
//   - Protection from a disk that loses what it has confirmed.
//   - That somebody who can change the files cannot take an end off, or put an older file in place: sealing keeps secrets.
package journal
