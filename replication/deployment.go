package replication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/zeebo/xxh3"

	"queen/engine/format"
)

// A cluster is known in raft's traffic by a number, its deployment: what comes under another one is dropped, so that an address that
// was another cluster's once, or is another's now, mixes nothing up. It is made of the nodes that the cluster began with and never
// changes; those that were added later are told, and find it in the state afterwards.

// errForeign: an address leads to a node of another cluster.
var errForeign = errors.New("is in use by another cluster: an address in the list of peers is wrong, or was given away")

// deploymentOf is the number of the cluster that began with these nodes.
func deploymentOf(members map[uint64]string) uint64 {
	h := xxh3.New()
	for _, node := range slices.Sorted(maps.Keys(members)) {
		fmt.Fprintf(h, "%d=%s\n", node, members[node])
	}
	return h.Sum64() | 1<<63 // not 0, which is unknown, nor a small one, which the library takes for its own
}

// isForeign reports a node of another cluster: one with another number, or other data, as two clusters have that began with the same nodes.
func (s *Sequencer) isForeign(r *Report) bool {
	own := s.cluster.Load()
	return isOther(s.deployment.Load(), r) || own != nil && r.Cluster != [16]byte{} && r.Cluster != *own
}

// noteCluster keeps what the cluster's data is called, once it is known.
func (s *Sequencer) noteCluster(id format.UUID) {
	if !id.IsZero() && s.cluster.Load() == nil {
		s.cluster.Store(&id)
	}
}

// isOther reports a node of another cluster than that with a number.
func isOther(own uint64, r *Report) bool { return own != 0 && r.Deployment != 0 && r.Deployment != own }

// learnDeployment takes the cluster's number from its nodes if it is not known, and refuses nodes of another cluster. One that this node was not told
// to look for, being among the first members only, counts as none, and is taken out of the reports: a removed member's address may have been given away.
func (s *Sequencer) learnDeployment(reports map[format.Replica]Report) error {
	for _, node := range slices.Sorted(maps.Keys(reports)) {
		r := reports[node]
		if s.deployment.Load() == 0 && r.Flags&ReportBorn != 0 {
			s.deployment.Store(r.Deployment)
		}
		_, named := s.o.Peers[node]
		switch foreign := s.isForeign(&r); {
		case foreign && !named:
			delete(reports, node)
		case foreign:
			return fmt.Errorf("replication: node %d: %s %w", node, s.others()[node], errForeign)
		}
	}
	return nil
}

// noteDeployment has the cluster remember its number, for nodes that were not there from the start.
func (s *Sequencer) noteDeployment(ctx context.Context) {
	if s.peer.Deployment() != 0 {
		return
	}
	if err := s.peer.NoteDeployment(ctx, s.deployment.Load()); err != nil {
		s.o.Log.Debug("the number of the cluster was not noted", "err", err)
	}
}
