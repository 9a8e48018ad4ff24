// Package replication will make several nodes one broker: it implements engine.Sequencer over dragonboat's raft. It is
// not built yet, and a node refuses the settings of a cluster by name.
//
// What will be here: dragonboat's log storage plugged onto engine/logstore, so that a payload is written once and is its
// own raft log entry; engine/machine as the replicated state machine; forwarding of calls to the leader; membership;
// and delta rejoin, which moves only the chunks that sidecar hashes show to differ.
//
// What will not: a wire protocol for clients, a second message store, or any behaviour that a single node has not.
package replication
