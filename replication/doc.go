// Package replication makes several nodes one broker: it implements engine.Replicated over dragonboat's raft.
//
// It promises:
//
//   - A proposal that was applied anywhere is on the disks of a majority. Raft's log is the node's own (LogDB over
//     engine/logstore): a payload is written once per replica, where it is read from.
//   - Any node takes any call. Who follows hands it to the leader (links.go, stream.go), and completes it when its own
//     apply comes to it. A call applies once however often the leader changes: entries bear the epoch of their leader, and
//     apply refuses those of one that is over (engine/cluster.go).
//   - A disk that forgot what it promised never votes (guard.go): the cluster remembers whose disk is whose, and a node that hears so late ends.
//   - Raft takes what a member says from that member's address alone (addresses.go): a node that is set up wrongly, or a copy of a directory that runs
//     elsewhere, does nothing to the others.
//   - Log that every member has applied, and no node needs itself, is given away (floor.go); for a member that is away it is
//     kept as long as Options.Hold says. Who lacks it, or is new, pulls a copy of another node's state before it takes part
//     (pull.go).
//   - A node that raft reaches, and whose port above raft's does not answer, is told of, and so is a follower that can not write because
//     the leader takes nothing from it (silent.go, stream.go).
//   - A node that was started again hears raft's messages at once, whatever connections it had before (outbox.go).
//   - Where nodes authenticate each other they do so with what their files hold at that moment: a renewed certificate counts from the
//     next connection on, at both ports (transport.go), and one of an authority that was withdrawn ends with its connections (withdrawn.go).
//   - An address that belongs to another cluster mixes nothing up: a cluster has a number of its own (deployment.go).
//
// A process takes part in one raft group, or in as many as its cluster has (OpenAll in groups.go). They share the library's host (host.go), the
// port above raft's (door.go), and the log storage, behind which each has a log of its own (grouplog.go). Their leads are spread over the nodes
// (spread.go).
//
// A pull goes on over another connection where one broke off (tape.go); when one of the two processes ends it begins anew.
//
// It deliberately does not know what an entry means, nor any wire of clients.
//
// Concurrency: the library calls LogDB from its step and apply workers, the state machine from one of them at a time. The
// engine proposes from one goroutine at a time.
//
// Read first: Sequencer (sequencer.go), LogDB (logdb.go), then links.go.
package replication
