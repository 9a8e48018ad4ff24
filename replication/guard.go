package replication

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// errWiped, errReverted, errLost: a disk that forgot what it has promised must not vote.
var (
	errWiped = errors.New("replication: the data directory is empty, or another one than this node had: what it voted for and stored is gone, " +
		"and it must not vote again. Remove this node from its cluster and add it under a new number (queen cluster remove, add; --peer-join)")
	errReverted = errors.New("replication: the data directory is an older copy of itself, or runs twice: it must not vote. Remove this node " +
		"from its cluster and add it under a new number (queen cluster remove, add; --peer-join)")
	errLost = errors.New("replication: the log lacks its end: what was durable is gone, and the leader relies on it. Remove this node " +
		"from its cluster and add it under a new number (queen cluster remove, add; --peer-join)")
	// errGone: nobody can say whether what a group began with is on a disk somewhere.
	errGone = errors.New("replication: the directory of the raft group is empty, and the group had begun: what it stored here is gone, and no " +
		"other node is known that has it. Put the directory back")
	errAlone = errors.New("replication: a node that joins needs the other nodes among its peers (--peers): they know whether its number is new")
)

// guard returns nil when this node's disk may vote, after asking the others what they remember of it.
//
// A directory that has taken part before asks for a moment and goes on when nobody knows better: after a power cut all
// nodes start at once. An empty one is another matter. It may be a first start, or all that was promised may be gone; so it
// waits until either enough other nodes are as empty as itself, and they are a majority together, which then is a new
// cluster, or one that has just made sure that it is up to date knows nothing of it. For one that joins only the latter
// counts: its number is new to a cluster that is there, or the disk that had it is gone.
func (s *Sequencer) guard(fresh bool) error {
	id, boot := s.log.Disk()
	own := engine.Disk{ID: id, Boot: boot}
	joins := s.joining && fresh
	forms := len(s.members) // nodes of a cluster that may have to form; those that join have none
	if fresh && s.o.origin != nil {
		begun, err := s.o.origin.begun()
		if err != nil {
			return err
		}
		if begun {
			forms = 0 // what the group has is elsewhere, or gone: this node must not begin it anew
		}
	}
	if len(s.others()) == 0 {
		switch {
		case joins:
			return errAlone
		case fresh && forms == 0:
			return errGone
		}
		return nil
	}
	for tries := 0; ; tries++ {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		reports := s.poll(ctx, askSure)
		cancel()
		if err := errors.Join(s.learnDeployment(reports), s.sameAddresses(reports), s.sameGroups(reports)); err != nil {
			return err
		}
		st, _ := s.log.Replica(s.group, s.o.Node)
		done, err := judge(own, uint64(st.Last), fresh, reports, forms)
		switch {
		case err != nil:
			return err
		case s.deployment.Load() == 0: // only the others know
		case done || !fresh && tries >= guardTries:
			return nil
		case tries%20 == 10:
			s.o.Log.Info("waiting for other nodes", "answer", len(reports), "of", len(s.others()))
		}
		select {
		case <-s.o.quit:
			return errEnded
		default:
		}
		if !s.restFor(10 * pause) {
			return errEnded
		}
	}
}

// sameAddresses refuses a list of peers that calls a node by another address than it does itself: the library would panic
// at its first message.
func (s *Sequencer) sameAddresses(reports map[format.Replica]Report) error {
	for node, addr := range s.others() {
		if r, ok := reports[node]; ok && r.Address != addressHash(addr) {
			return fmt.Errorf("replication: node %d is not known as %s to itself: all nodes need the same list of peers", node, addr)
		}
	}
	return nil
}

// guardTries is how often a node that has taken part before asks.
const guardTries = 3

// judge says whether what the others remember settles it: done, or an error for a disk that must not vote. last is the
// newest entry of its log; forms is of how many nodes a new cluster would be, 0 when it is there already.
func judge(own engine.Disk, last uint64, fresh bool, reports map[format.Replica]Report, forms int) (done bool, err error) {
	empty := 1
	for _, r := range reports {
		known := engine.Disk{ID: r.KnownDisk, Boot: r.KnownBoot}
		switch {
		case known == (engine.Disk{}):
		case known.ID != own.ID:
			return false, errWiped
		case known.Boot >= own.Boot:
			return false, errReverted
		case r.KnownApplied > last:
			return false, fmt.Errorf("%w: it ends at entry %d, and had applied %d", errLost, last, r.KnownApplied)
		}
		switch {
		case r.Flags&ReportBorn == 0:
			empty++
		case r.Flags&ReportSure != 0:
			done = true
		}
	}
	if !fresh {
		return done, nil
	}
	return done || forms > 0 && empty > forms/2, nil
}
