package replication

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/lni/dragonboat/v4/raftio"

	"queen/engine/format"
	"queen/engine/logstore"
)

// groupLog is the log of one raft group as LogDB knows it. What one group knows says nothing of another: indexes of different groups have
// nothing to do with each other.
type groupLog struct {
	log *logstore.Store
	// known is an index that the caller proves committed (a checkpoint, an outcome found): what is read back
	// of raft's state is no older. Zero where nothing is known.
	known format.Index
	// take gives what apply decided and is not on disk yet; nil without an applier. It goes with the next save
	// that is written at once.
	take func(format.RaftGroup, format.Replica) []logstore.Outcome
	// writing lets outcomes reach the log in order: it is that of all groups whose store is the same one.
	writing *sync.Mutex
}

// open puts a raft group's log behind d; it stays its owner's to close. committed and take are known and take of groupLog.
func (d *LogDB) open(g format.RaftGroup, log *logstore.Store, committed format.Index,
	take func(format.RaftGroup, format.Replica) []logstore.Outcome) {
	d.logs.Lock()
	defer d.logs.Unlock()
	l := &groupLog{log: log, known: committed, take: take, writing: &sync.Mutex{}}
	for _, other := range d.logs.of {
		if other.log == log {
			l.writing = other.writing
		}
	}
	d.logs.of[g] = l
}

// remove takes a raft group's log away once the library neither reads nor writes it, and with it what is held in memory of its replicas. One
// that was opened for the group since stays.
func (d *LogDB) remove(g format.RaftGroup, log *logstore.Store) {
	d.logs.Lock()
	defer d.logs.Unlock()
	if l := d.logs.of[g]; l == nil || l.log != log {
		return
	}
	delete(d.logs.of, g)
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.mu.held, func(info raftio.NodeInfo, _ *held) bool { return info.ShardID == uint64(g) })
}

func errNotOpen(g format.RaftGroup) error {
	return fmt.Errorf("replication: raft group %d is not open here", g)
}

// of finds the log of a raft group.
func (d *LogDB) of(g format.RaftGroup) (*groupLog, error) {
	if d.every != nil {
		return d.every, nil
	}
	d.logs.RLock()
	defer d.logs.RUnlock()
	if l := d.logs.of[g]; l != nil {
		return l, nil
	}
	return nil, errNotOpen(g)
}

// replica is what a raft group's log holds of a replica, zero for nothing.
func (d *LogDB) replica(shard, replica uint64) (st logstore.ReplicaState, err error) {
	l, err := d.of(format.RaftGroup(shard))
	if err == nil {
		st, _ = l.log.Replica(format.RaftGroup(shard), format.Replica(replica))
	}
	return st, err
}

// replicas are those of all raft groups, each in the log of its own.
func (d *LogDB) replicas() (all []logstore.ReplicaState) {
	if d.every != nil {
		return d.every.log.Replicas()
	}
	d.logs.RLock()
	defer d.logs.RUnlock()
	for _, g := range slices.Sorted(maps.Keys(d.logs.of)) {
		for _, r := range d.logs.of[g].log.Replicas() {
			if r.Group == g {
				all = append(all, r)
			}
		}
	}
	return all
}

// append writes one save to the log of its group.
func (d *LogDB) append(v *logstore.Save) error {
	l, err := d.of(v.Group)
	if err != nil {
		return err
	}
	return l.log.Append(v)
}

// flushOutcomes makes all outcomes of a group durable, and the commit index that is known.
func (d *LogDB) flushOutcomes(g format.RaftGroup, replica format.Replica) error {
	l, err := d.of(g)
	if err != nil {
		return err
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	v := &logstore.Save{Group: g, Replica: replica, Outcomes: l.take(g, replica)}
	if len(v.Outcomes) == 0 {
		return nil // then all of them are, and they prove what is committed as well
	}
	return l.log.Append(v)
}

// batch is what is written to one store at once, which may be that of several groups.
type batch struct {
	saves []*logstore.Save
	of    []*groupLog // of each save; all have one store
}

// addSave puts a save into the batch of its store.
func addSave(all []batch, l *groupLog, v *logstore.Save) []batch {
	n := slices.IndexFunc(all, func(b batch) bool { return b.of[0].log == l.log })
	if n < 0 {
		all, n = append(all, batch{}), len(all)
	}
	b := &all[n]
	b.saves, b.of = append(b.saves, v), append(b.of, l)
	return all
}

func (b *batch) write() error {
	b.of[0].writing.Lock()
	defer b.of[0].writing.Unlock()
	for i, v := range b.saves {
		// Outcomes never make a commit index on its own an extent, which costs a flush: then they wait for the next entries.
		if take := b.of[i].take; take != nil && (v.State != nil || v.Snapshot != nil || len(v.Entries) > 0) {
			v.Outcomes = append(v.Outcomes, take(v.Group, v.Replica)...)
		}
	}
	return b.of[0].log.Append(b.saves...)
}

// writeAll writes to all stores at the same time, since each waits for a flush of its own, and returns when all have: what failed in one
// is not hidden by what another did.
func writeAll(all []batch) error {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0].write()
	}
	errs := make([]error, len(all))
	var writers sync.WaitGroup
	for i := range all {
		writers.Go(func() { errs[i] = all[i].write() })
	}
	writers.Wait()
	return errors.Join(errs...)
}
