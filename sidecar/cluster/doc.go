// Package cluster knows who the hosts of a cluster are and carries bytes between them. What the bytes mean is not its business.
//
// # Model
//
// Gossip (memberlist) finds hosts and says which are alive; nothing else rides on it. A host joins when it has proved over a peer
// connection who it is, and is in the member set until it leaves. The set is kept in the data directory, and peers tell it to each other over their connections, so that a host that starts alone knows how many there were.
//
// A question goes over a TCP connection that the asker keeps open, one to each peer, and its answer comes back on it. Each
// question has a number, so many are open at a time. Ordered questions of a peer are served one after another.
//
//	dial, TLS 1.3 with certificates on both sides     proves that the peer belongs to the cluster
//	hello (node id, boot id, member set)         >    the peer says who it is
//	                                             <    welcome (the same of the other side), or a refusal with its reason
//	question 1, question 2, ordered question 3   >
//	                                             <    answer 2, answer 1, refusal 3
//
// # Who is let in
//
// With a secret alone, its holders derive one certificate authority from it, and each start makes a certificate of its own.
// With certificate files, the certificate must come from the authority in tls_ca and name the cluster. The gossip is
// encrypted by a key derived from the secret in both cases, so a secret is always needed.
//
// The node id is not in the certificate: a peer tells it in its hello, over the connection that its certificate has authenticated. So nobody outside of the cluster
// can speak as a node of it, and nobody can come between two nodes. The ids tell members apart and are no barrier between
// them: whoever has the secret, or a certificate of the cluster, is trusted with everything.
//
// # Guarantees
//
//   - A host with another secret, cluster id, certificate authority or protocol version neither joins, nor asks, nor answers. Frames that were
//     recorded, changed, reflected or sent on to another host are refused.
//   - Call returns ErrNotSent only if the question was not served and never will be.
//   - Of one peer's ordered questions no two are served at a time, and each was sent after the one before it, across lost connections too.
//   - A change of the member set is in the data directory before OnChange's functions hear of it, unless the disk fails, which is logged.
//   - The member set shrinks by a leave, by an operator, when a host's address becomes another's, or for a host that was unseen for 24 hours while a
//     majority of the set was alive. A minority never forgets the others, however long it is cut off.
//   - Who left or was forgotten is not brought back by a host that was away and knows of an earlier run, but by a run that comes later.
//   - Nothing is allocated on the word of a length; queues, frames and the questions served at a time are bounded.
//
// # Does not guarantee
//
//   - That Alive is true: gossip takes 5 to 50 seconds to see a death, and whoever can send packets to the gossip port can replay old ones,
//     which memberlist corrects within seconds. Nothing but Alive and where to connect to follows from gossip.
//   - That two hosts have the same member set at the same moment.
//   - That a secret which people can remember is safe: the certificate that everybody sees who connects lets guesses be tried
//     without asking. `coatcheck cluster secret` makes one that cannot be guessed.
//
// # Concurrency
//
// Everything is safe for concurrent use. No lock that memberlist's callbacks, a Handler or a function of OnChange could want is held while they
// are called.
package cluster
