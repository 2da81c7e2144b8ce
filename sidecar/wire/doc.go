// Package wire is the client protocol: frames and messages, as docs/protocol.md defines them.
//
// It works on byte slices alone and touches neither sockets nor goroutines. A decoded [Request] points into the
// frame it came from and is valid as long as that frame.
//
// # Guarantees
//
//   - No length that a peer sends is trusted for an allocation; decoding a frame allocates nothing that grows
//     with it, but for lists of keys, which are bounded by [MaxKeys].
//   - Decoding never recurses, so nested containers cannot exhaust the stack.
//   - A parameter that a method does not know, or of the wrong type, is an error.
package wire
