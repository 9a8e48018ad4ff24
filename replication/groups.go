package replication

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// A cluster has a number of raft groups for ever. The first one is the cluster's: its rows say how many there are, which of the others have
// begun, and which tenant is in which. Each of the others is a whole node with a directory and a log of its own, below that of the first, and
// begins with the members that the first one began with.

// MaxGroups bounds the raft groups of a cluster. Ids have room for more (maxGroup); nobody measured them.
const MaxGroups = 16

// groupsName is the row, beside those of the nodes' disks, that says how many raft groups the cluster has.
const groupsName = "groups"

// OpenAll opens a node of a cluster over cfg.Dir with as many raft groups as o says, and returns once it knows its cluster in all of them; of
// one group it is Open.
func OpenAll(cfg engine.Config, o Options) (engine.Served, error) {
	o = o.of(cfg)
	if err := errors.Join(cfg.Validate(), o.Validate()); err != nil {
		return nil, err
	}
	if o.groups() == 1 {
		return openOne(cfg, o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-cfg.Quit:
			cancel()
		case <-ctx.Done():
		}
	}()
	o.shared = newHost(o.withDefaults())
	o.shared.quiet.do = cfg.Rested
	first, err := settle(groupConfig(cfg, o.shared, 1, format.UUID{}), o)
	if err != nil {
		return nil, err
	}
	seq, _ := first.Cluster()
	s := seq.(*Sequencer)
	nodes := []*engine.Node{first}
	if err = s.agree(ctx, first); err == nil {
		nodes, err = openOthers(ctx, cfg, o, first, s)
	}
	if err == nil {
		return engine.NewRouter(nodes), nil
	}
	if ctx.Err() != nil {
		err = errQuit
	}
	return nil, errors.Join(err, closeAll(nodes))
}

// errQuit is what OpenAll comes to whose Quit is closed.
var errQuit = &engine.Error{Code: engine.CodeClosed, Cause: errEnded, Message: "the node was stopped before it was open"}

// openOne opens a node of a cluster of one raft group; one of several is refused, since this node would serve all tenants from the first.
func openOne(cfg engine.Config, o Options) (engine.Served, error) {
	switch _, err := cfg.FS.Stat(engine.GroupDir(cfg.Dir, 2)); {
	case err == nil:
		return nil, fmt.Errorf("replication: the data directory has %s: the node is of a cluster of several raft groups, and is set to 1 "+
			"(--peer-groups): it would serve the tenants of all from the first", engine.GroupDir(cfg.Dir, 2))
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("replication: %w", err)
	}
	n, err := settle(cfg, o)
	if err != nil {
		return nil, err
	}
	if have := groupsOf(n); have > 1 {
		return nil, errors.Join(errGroups(have, 1), n.Close(context.Background()))
	}
	return n, nil
}

// openOthers opens raft groups 2 and up at the same time, behind the first one, whose node and sequencer are given. nodes are those that are
// open, the first included, whatever the error: when one group fails the others give up what they wait for.
func openOthers(ctx context.Context, cfg engine.Config, o Options, first *engine.Node, s *Sequencer) (nodes []*engine.Node, err error) {
	st, err := first.Status(ctx)
	nodes = []*engine.Node{first}
	if err != nil {
		return nodes, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([]*engine.Node, o.groups()-1)
	var opening sync.WaitGroup
	for i := range all {
		opening.Go(func() {
			g := format.RaftGroup(i + 2)
			var err error
			if all[i], err = openGroup(ctx, groupConfig(cfg, o.shared, g, st.Cluster), o, g, first, s); err != nil {
				cancel(fmt.Errorf("replication: raft group %d: %w", g, err)) // the first error counts: others come of it
			}
		})
	}
	opening.Wait()
	for _, n := range all {
		if n != nil {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) < o.groups() {
		return nodes, context.Cause(ctx)
	}
	return nodes, nil
}

// openGroup opens a raft group above the first one, and has the first one remember that it has begun.
func openGroup(ctx context.Context, cfg engine.Config, o Options, g format.RaftGroup, first *engine.Node, s *Sequencer) (*engine.Node, error) {
	cfg.Quit, o.quit, o.group = ctx.Done(), ctx.Done(), g
	o.origin = &origin{members: s.members, joining: s.joining, draining: first.Draining, begun: func() (bool, error) {
		// The row may be committed and not applied here yet.
		if first.GroupBorn(g) {
			return true, nil
		}
		if err := s.Barrier(ctx); err != nil {
			return false, errEnded
		}
		return first.GroupBorn(g), nil
	}}
	n, err := settle(cfg, o)
	if err != nil {
		return nil, err
	}
	for err := first.NoteGroup(ctx, g); err != nil; err = first.NoteGroup(ctx, g) {
		if !s.restIn(ctx, agreePause) {
			return nil, errors.Join(errEnded, n.Close(context.Background()))
		}
	}
	return n, nil
}

// closeAll closes nodes at the same time: each waits for others to lead.
func closeAll(nodes []*engine.Node) error {
	errs := make([]error, len(nodes))
	var closing sync.WaitGroup
	for i, n := range nodes {
		closing.Go(func() { errs[i] = n.Close(context.Background()) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// origin is what a raft group above the first one takes from it when its own log knows nothing: the first one's first members, since that is
// how every node has the group begin, and not the list of peers, which may name nodes that were added since or are still to be.
type origin struct {
	members map[uint64]string
	joining bool
	// begun reports whether the group has its Genesis, as far as the first one knows after it has made sure that it is up to date. A log that
	// is empty then was not always so, or is that of a node which never took part.
	begun func() (bool, error)
	// draining are the nodes that drain, which only the first one remembers.
	draining func() []format.Replica
}

// agreePause is between tries to agree on the number of raft groups.
const agreePause = 100 * time.Millisecond

// agree returns once the cluster says that it has as many raft groups as this node is set to. Where nothing says it yet, one of the nodes
// that the cluster began with does.
func (s *Sequencer) agree(ctx context.Context, first *engine.Node) error {
	own := s.o.groups()
	for told := false; ; {
		switch have := groupsOf(first); {
		case have == own:
			return nil
		case have != 0:
			return errGroups(have, own)
		}
		// What others wrote may be committed and not applied here yet.
		if s.Barrier(ctx) != nil {
			return errEnded
		}
		if groupsOf(first) != 0 {
			continue
		}
		may, err := s.mayBeginGroups(ctx, first)
		switch {
		case err == nil && !may && groupsOf(first) == 0: // what is there was not put there by one that said the number meanwhile
			return errGroups(1, own)
		case err == nil && may && !s.joining:
			_, err = first.SetAdmin(ctx, format.SystemTenant, engine.AdminChange{Kind: format.AdminNode, Name: groupsName,
				Value: []byte{byte(own)}, Guarded: true})
			if err == nil {
				continue // another node may have been first
			}
		}
		if !told {
			s.o.Log.Info("the number of raft groups is not known yet", "err", err)
			told = true
		}
		if !s.restIn(ctx, agreePause) {
			return errEnded
		}
	}
}

// mayBeginGroups reports whether a cluster of which nothing says how many raft groups it has may be given several: all of its members are
// those that it began with, which all groups begin with, and it is new, or has one node, so that none serves it meanwhile as one of a single group.
func (s *Sequencer) mayBeginGroups(ctx context.Context, first *engine.Node) (bool, error) {
	st := first.Inspect().Stats()
	empty := st.Queues == 0 && st.KVRows == 0 && st.TimersPending == 0
	if s.joining {
		return empty, nil // who joins writes nothing, and waits for those that may
	}
	m, err := s.membership(ctx)
	if err != nil {
		return false, err
	}
	same := len(m.Nodes) == len(s.members) && len(m.NonVotings) == 0
	for node := range m.Nodes {
		_, ok := s.members[node]
		same = same && ok
	}
	return same && (empty || len(m.Nodes) == 1), nil
}

// groupsOf is how many raft groups the cluster has, as far as its first one has applied here; 0 where nothing says so, which one of a single
// group does not.
func groupsOf(rows interface {
	AdminRow(format.Tenant, format.AdminKind, string) (engine.AdminRow, bool)
}) int {
	row, ok := rows.AdminRow(format.SystemTenant, format.AdminNode, groupsName)
	if !ok || len(row.Value) != 1 {
		return 0
	}
	return int(row.Value[0])
}

// errGroups refuses a number of raft groups that is not the cluster's.
func errGroups(have, set int) error {
	return fmt.Errorf("replication: the cluster has %d raft groups, this node is set to %d (--peer-groups): their number is fixed when a cluster "+
		"begins", have, set)
}

// saysGroups is groupsOf for a sequencer of the first group; 0 for others, and where its node has no rows.
func (s *Sequencer) saysGroups() int {
	rows, ok := s.peer.(engine.AdminStore)
	if s.group != firstGroup || !ok {
		return 0
	}
	return groupsOf(rows)
}

// sameGroups refuses a cluster whose nodes say that it has another number of raft groups.
func (s *Sequencer) sameGroups(reports map[format.Replica]Report) error {
	for _, r := range reports {
		if have := r.groups(); have != 0 && have != s.o.groups() {
			return errGroups(have, s.o.groups())
		}
	}
	return nil
}

// watchGroups ends a node of a single group once its cluster turns out to have several: it came up before anything said so.
func (s *Sequencer) watchGroups() {
	if have := s.saysGroups(); have > 1 && s.o.groups() == 1 {
		s.fatal(errGroups(have, 1))
	}
}
