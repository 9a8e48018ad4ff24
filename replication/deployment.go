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

// isForeign reports a node of another cluster.
func (s *Sequencer) isForeign(r *Report) bool {
	return isOther(s.deployment.Load(), r)
}

// isOther reports a node of another cluster than that with a number.
func isOther(own uint64, r *Report) bool { return own != 0 && r.Deployment != 0 && r.Deployment != own }

// learnDeployment takes the cluster's number from its nodes if it is not known, and refuses nodes of another cluster.
func (s *Sequencer) learnDeployment(reports map[format.Replica]Report) error {
	for _, node := range slices.Sorted(maps.Keys(reports)) {
		r := reports[node]
		if s.deployment.Load() == 0 && r.Flags&ReportBorn != 0 {
			s.deployment.Store(r.Deployment)
		}
		if s.isForeign(&r) {
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
