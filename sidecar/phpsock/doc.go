// Package phpsock serves the client protocol (docs/protocol.md) on a Unix socket: it accepts, learns who is
// there from the kernel, turns requests into store commands, and answers. It decides nothing and holds no state
// but that of its connections.
//
// # Concurrency
//
// One goroutine per connection reads, serves and answers, with no hand-over in between. Only a request that has
// to wait (a contended lock, kv.wait) moves to a goroutine of its own, so that the connection's goroutine goes on
// reading and sees at once when the client has gone.
//
// # Guarantees
//
//   - The tenant is the socket's, whatever the client says.
//   - A connection's buffers grow only with bytes that have arrived, and to one frame at most.
//   - Answers to requests that arrived together leave in one write, unless they are many.
//   - When a connection ends, its waits are dropped and its bound locks released.
package phpsock
