// Package locker waits for locks, wakes those who wait, renews leases and releases what the dead
// leave behind. It decides nothing: each grant is its [arbiter.Arbiter]'s.
//
// # Model
//
// A [Client] is one connection of a process. The locks it takes bound belong to it: they are renewed at
// a third of their lease while it lives, until the longest hold, and released when it closes or its request ends.
//
// Waiters of one lock queue first-in-first-out. Only the head asks the arbiter, at once when a
// release is seen here, else after 10 ms, doubling to 100 ms; the back-off is the floor under a wake-up
// that was lost or that happened on another node.
//
// # Guarantees
//
//   - A waiter whose client has gone is dropped before a grant; a grant that crossed its client's end is released.
//   - Nobody who asks is granted a lock ahead of those who queue for it on this node, but for a waiter whose time is
//     up: it asks once more before it gives up.
//   - At most MaxWaiters queue for one lock; the next is told so at once.
//
// # Does not guarantee
//
//   - Order among waiters of different nodes.
//   - That a bound lock outlives its longest hold.
//
// # Locks of this package
//
// Locker.mu and Client.mu are never held together, and neither across a call to the arbiter.
package locker
