// Package resp serves the Redis protocol, RESP2 and RESP3, on a listener: it accepts, authenticates, turns commands
// into store commands, and answers as Redis does. docs/redis.md lists what is served and how it differs. The
// package decides nothing and holds no state but that of its connections and the list of known scripts.
//
// # Model
//
// A command of the table is either planned (plan says which store commands it needs, reply says what their
// results mean) or run at once (HELLO, SCAN, INFO). Plans are what makes MULTI simple: the plans of all queued commands are
// one batch, and each command then gives its own reply. Scripts are not interpreted: a script that is known,
// whatever its spacing, is planned as the atomic command that it stands for.
//
// A database is a bucket of its number; database 0 is the bucket with the empty name, the one that
// clients of the socket use when they name none.
//
// # Concurrency
//
// One goroutine per connection reads, has commands decided and answers, with no hand-over in between.
//
// # Guarantees
//
//   - The tenant is that of the user who authenticated; without users it is the endpoint's.
//   - Sessions and locks are not reachable.
//   - Buffers grow only with bytes that have arrived, to one command of limited size per connection and to one limit for
//     all connections together. A reply has a limited size. A client that does not read is cut off.
//   - Who has not authenticated, where one must, keeps nobody out: neither by silence, nor by the number of connections, nor by
//     guesses at passwords, except for a user whose own are being guessed and who was never there since the start.
//   - What takes long is given up when its client has gone or the server closes.
//   - The answers to commands that arrived together leave in one write, unless they are many.
package resp
