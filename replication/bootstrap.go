package replication

import (
	"errors"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/logstore"
)

// Bootstrap makes the data directory of a single node that has been stopped the first node of a cluster: number 1, at a raft
// address. One extent is appended to its log: that this is a replica of a cluster, its vote for itself, and, as an entry behind
// those that the single node wrote, the membership of one. No entry is rewritten. Other nodes are added afterwards.
func Bootstrap(cfg engine.Config, addr string) error {
	if _, err := sideAddress(addr); err != nil {
		return err
	}
	log, lock, err := engine.OpenLog(cfg)
	if err != nil {
		return err
	}
	defer lock.Close()
	err = bootstrap(log, addr)
	return errors.Join(err, log.Close())
}

// The replica that a single node writes as, with its raft group, and its term.
const (
	firstGroup format.RaftGroup = 1
	firstNode  format.Replica   = 1
	firstTerm  format.Term      = 1
)

func bootstrap(log *logstore.Store, addr string) error {
	all := log.Replicas()
	switch {
	case len(all) == 0:
		return errors.New("replication: the data directory is empty: a new cluster needs no bootstrap, start its nodes with --peers")
	case len(all) > 1 || all[0].Group != firstGroup || all[0].Replica != firstNode || all[0].Bootstrap != nil:
		return errors.New("replication: the data directory is a node's of a cluster already")
	case all[0].Last == 0:
		return errors.New("replication: the log holds no entry: start the single node once, or a new cluster with --peers")
	}
	save := &logstore.Save{Group: firstGroup, Replica: firstNode, State: &logstore.HardState{Term: firstTerm + 1, Vote: firstNode},
		Bootstrap: &format.Bootstrap{Group: firstGroup, Replica: firstNode, Type: uint8(pb.OnDiskStateMachine),
			Members: []format.Member{{Role: format.MemberVoter, Replica: firstNode, Address: addr}}}}
	if floor := all[0].Floor; floor > 0 {
		// The start of the log was given away: the membership stands in a snapshot record there, which nodes that are added pull.
		save.Snapshot = &format.Snapshot{Group: firstGroup, Replica: firstNode, Index: floor, Term: firstTerm, OnDisk: floor, Dummy: true,
			ConfigChange: 1, Members: save.Bootstrap.Members}
		save.Commit = all[0].Last
		return log.Append(save)
	}
	next := all[0].Last + 1
	change := pb.ConfigChange{Type: pb.AddNode, ReplicaID: uint64(firstNode), Address: addr, Initialize: true}
	save.Entries = []logstore.Entry{{Index: next, Term: firstTerm, Type: format.EntryType(pb.ConfigChangeEntry), Data: pb.MustMarshal(&change)}}
	save.Commit = next
	return log.Append(save)
}
