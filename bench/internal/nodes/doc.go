// Package nodes runs several real nodes as one cluster, carries what they send to each other, and does them harm.
//
// Nodes know each other by relays of this process, which find out by the sender's socket whose a connection is: so any link
// can be cut in either direction without privileges. Clients reach the nodes directly, at addresses that stay the same.
//
// A kind of harm strikes a node, the leader of a random raft group or all of them, lasts for a while, and is undone. It says what it
// did and, apart from that, what shows that it bit: terms that changed, nodes that did not answer or found no majority, bytes that did not
// pass, flushes that stalled, members that are others. What shows it was observed from outside, not concluded from what was
// done; where nothing was observed there is no such word.
//
// Two kinds need a file system that loses what was not flushed (lossyfs), which takes the right to mount; clock needs a node built with
// the tag faults. Both are prepared at the start for the kinds that are named there.
//
// Read first: Options and New (cluster.go), then Harm (harm.go) and the table of kinds (kinds.go).
package nodes
