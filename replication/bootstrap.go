package replication

import (
	"errors"
	"fmt"

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

// The replica that a single node writes as, and its term.
const (
	firstNode format.Replica = 1
	firstTerm format.Term    = 1
)

func bootstrap(log *logstore.Store, addr string) error {
	all := log.Replicas()
	switch {
	case len(all) == 0:
		return errors.New("replication: the data directory is empty: a new cluster needs no bootstrap, start its nodes with --peers")
	case len(all) > 1 || all[0].Group != group || all[0].Replica != firstNode || all[0].Bootstrap != nil:
		return errors.New("replication: the data directory is a node's of a cluster already")
	case all[0].Last == 0:
		return errors.New("replication: the log holds no entry: start the single node once, or a new cluster with --peers")
	case all[0].First != 1:
		return fmt.Errorf("replication: the log begins with entry %d, since its start was given away: a node that is added would need "+
			"it, and catching up by checkpoint is not built yet", all[0].First)
	}
	next := all[0].Last + 1
	change := pb.ConfigChange{Type: pb.AddNode, ReplicaID: uint64(firstNode), Address: addr, Initialize: true}
	return log.Append(&logstore.Save{Group: group, Replica: firstNode,
		Bootstrap: &format.Bootstrap{Group: group, Replica: firstNode, Type: uint8(pb.OnDiskStateMachine),
			Members: []format.Member{{Role: format.MemberVoter, Replica: firstNode, Address: addr}}},
		State:   &logstore.HardState{Term: firstTerm + 1, Vote: firstNode},
		Entries: []logstore.Entry{{Index: next, Term: firstTerm, Type: format.EntryType(pb.ConfigChangeEntry), Data: pb.MustMarshal(&change)}},
		Commit:  next,
	})
}
