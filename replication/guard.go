package replication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lni/dragonboat/v4"

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
// A directory that has taken part before asks for a moment, and until a majority answers, itself included, and goes on when nobody
// knows better: after a power cut all nodes start at once. While too few answer it could do nothing anyhow; so it waits for them, but not for ever,
// since they may be gone. An empty one is another matter. It may be a first start, or all that was promised may be gone; so it waits until
// either all other nodes are as empty as itself, which then is a new cluster, or one that has just made sure that it is up to date knows nothing of
// it. All of them: of two whose disks were wiped, each would take the other for new, and a third one may have what they lost. For one
// that joins only the latter counts: its number is new to a cluster that is there, or the disk that had it is gone.
func (s *Sequencer) guard(fresh bool) error {
	id, boot := s.log.Disk()
	own := engine.Disk{ID: id, Boot: boot}
	joins := s.joining && fresh
	forms := s.formation()
	if fresh && s.o.origin != nil {
		begun, err := s.o.origin.begun()
		if err != nil {
			return err
		}
		if begun {
			forms = nil // what the group has is elsewhere, or gone: this node must not begin it anew
		}
	}
	if len(s.others()) == 0 {
		switch {
		case joins:
			return errAlone
		case fresh && forms == nil:
			return errGone
		}
		return nil
	}
	began := s.o.Clock.Mono()
	for tries := 0; ; tries++ {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		reports := s.poll(ctx, askSure)
		cancel()
		if err := s.learnDeployment(reports); err != nil {
			return err
		}
		if err := errors.Join(s.sameAddresses(reports), s.isKnownAs(reports), s.sameGroups(reports)); err != nil {
			return err
		}
		st, _ := s.log.Replica(s.group, s.o.Node)
		done, err := judge(own, uint64(st.Last), fresh, reports, forms)
		switch {
		case err != nil:
			return err
		case s.deployment.Load() == 0: // only the others know
		case done || !fresh && tries >= guardTries && s.isMajority(reports):
			return nil
		case !fresh && time.Duration(s.o.Clock.Mono()-began)*time.Microsecond >= s.o.alone:
			s.o.Log.Warn("this node goes on though too few others answer: whether its disk may vote was not confirmed", "answer", len(reports),
				"of", len(s.others()), "err", s.whyUnheard())
			return nil
		case tries%20 == 10:
			s.o.Log.Info("waiting for other nodes", "answer", len(reports), "of", len(s.others()), "err", s.whyUnheard())
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

// isMajority reports that those that answer are one with this node, of the nodes that ever took part as far as it knows: peers that are still to be
// added are not waited for.
func (s *Sequencer) isMajority(reports map[format.Replica]Report) bool {
	all, there := 1, 1
	for node := range s.others() {
		_, first := s.members[uint64(node)]
		if _, took := s.peer.DiskOf(node); !first && !took {
			continue
		}
		all++
		if _, answers := reports[node]; answers {
			there++
		}
	}
	return 2*there > all
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

// errAddress is for a node that does not run under the raft address of the member whose number it has.
var errAddress = errors.New("the cluster has a member of this number under another raft address than this node's (--peers, --node-id): a member keeps its " +
	"address. Start it under that one; and if this is a copy of the member's data directory, do not start it")

// isKnownAs refuses a node that is a member under another address than its own: raft would not hear it, and it may be a copy of the member.
func (s *Sequencer) isKnownAs(reports map[format.Replica]Report) error {
	for node, r := range reports {
		if r.KnownAddress != 0 && r.KnownAddress != addressHash(s.o.Peers[s.o.Node]) {
			return fmt.Errorf("replication: node %d, as node %d says: %w", s.o.Node, node, errAddress)
		}
	}
	return nil
}

// sameOwnAddress refuses a directory whose member had another raft address than the node is set to.
func sameOwnAddress(o *Options, members map[uint64]dragonboat.Target) error {
	if was, ok := members[uint64(o.Node)]; ok && was != o.Peers[o.Node] {
		return fmt.Errorf("replication: node %d is set to %s, and its data directory is that of a member under %s: %w", o.Node, o.Peers[o.Node], was, errAddress)
	}
	return nil
}

// stillItself is judge for a node that takes part: what others remember of its disk may have come to them late, and another copy of it may have been
// started since. It is told so in each round of the census.
func (s *Sequencer) stillItself(reports map[format.Replica]Report) error {
	id, boot := s.log.Disk()
	for _, node := range slices.Sorted(maps.Keys(reports)) {
		r := reports[node]
		switch {
		case r.KnownDisk == [16]byte{}:
		case r.KnownDisk != id:
			return fmt.Errorf("%w (node %d knows it)", errWiped, node)
		case r.KnownBoot > boot:
			return fmt.Errorf("%w (node %d knows of its start number %d, this is number %d)", errReverted, node, r.KnownBoot, boot)
		}
	}
	return s.isKnownAs(reports)
}

// guardTries is how often a node that has taken part before asks at least, aloneFor for how long it waits for a majority.
const (
	guardTries = 3
	aloneFor   = 30 * time.Second
)

// formation is of which nodes a new cluster would be; nil when it is there already.
type formation struct {
	members map[uint64]dragonboat.Target
	others  int // how many beside this one have to be empty
}

// formation is that of this node's raft group. The first one begins when all of its nodes are there. Of another one the first one says whether it has
// begun, and is guarded itself: a majority is enough, since a node may have been lost meanwhile.
func (s *Sequencer) formation() *formation {
	switch n := len(s.members); {
	case n == 0: // it joins
		return nil
	case s.o.origin != nil:
		return &formation{s.members, n / 2}
	default:
		return &formation{s.members, n - 1}
	}
}

// judge says whether what the others remember settles it: done, or an error for a disk that must not vote. last is the
// newest entry of its log.
func judge(own engine.Disk, last uint64, fresh bool, reports map[format.Replica]Report, forms *formation) (done bool, err error) {
	empty := 0
	for node, r := range reports {
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
			if forms != nil && forms.members[uint64(node)] != "" {
				empty++
			}
		case r.Flags&ReportSure != 0:
			done = true
		}
	}
	if !fresh {
		return done, nil
	}
	return done || forms != nil && empty >= forms.others, nil
}
