// Package owner is the arbiter of a cluster in which the owner of a key decides.
//
// # Model
//
// Hosts agree on a view: an epoch and its members. Rendezvous hashing over the members gives each of the store's 256 shards an owner, which decides
// every command on it, and a runner-up, which has a copy. A Seat is a host's part in this; docs/decisions/0010 says how views
// come about. An Arbiter sends commands to where they are decided.
//
// A host decides only while a majority of the hosts answers with its very view. An answer counts for 2 s after its question
// was sent, and whoever takes over from a host that does not answer waits for 3 s, so there is one who decides: a majority for the new view
// has a host in common with any majority for an old one, and that host accepted the new view after its last answer for
// the old. The permission is looked at before and after each command: a command during which the process was stopped is not
// acknowledged.
//
// A change of a session or lock is acknowledged when the runner-up has it too. Records go there in batches, in order. A copy
// that is not whole is begun anew, shard by shard. Who takes a shard over asks all hosts how new their copies are and pulls the newest;
// from the owner before, what is missing of its own is enough. A host that comes new or again has no copies: it is at first the runner-up of
// what it would own, and the owner when it has the copies, so that nobody waits while they travel.
//
// # Guarantees
//
//   - No two hosts decide on a shard at the same time, unless two hosts are all there are and Config.ServeMinority is set, or members of the
//     member set are unknown to each other.
//   - What was acknowledged with a copy is kept when one host dies.
//   - What was acknowledged without one was decided by a host that a majority still followed afterwards: who is cut off acknowledges no change of
//     a session or lock.
//   - An error that wraps arbiter.ErrNotDecided: nothing was done.
//
// # Does not guarantee
//
//   - That a change which was acknowledged without a copy outlives its owner. Such changes are counted and logged.
//   - That anything is kept when owner and runner-up are gone together, and stay away for longer than two minutes.
//
// # Locks
//
// Seat.mu is taken before a stream's mu. A shard of the store is taken before a stream's mu, and never with Seat.mu held.
package owner
