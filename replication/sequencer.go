package replication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/logstore"
)

const (
	// inFlight bounds entries between proposal and apply on the leader: while one is being flushed by the followers the
	// next is on its way, and whoever comes meanwhile shares the one after.
	inFlight = 4
	// proposeWithin is how long the library keeps account of a proposal. What it says then counts for nothing.
	proposeWithin = 30 * time.Second
	// keptJoined bounds the memory that is kept for the next entry; where the fuser stops adding, and a larger one is alone.
	keptJoined = 4 << 20
	// pause is between tries of what the library can not do at the moment.
	pause = 5 * time.Millisecond
)

// Open opens a node of a cluster over cfg.Dir and returns once it knows its cluster: a new one waits until all
// of its peers are there.
func Open(cfg engine.Config, o Options) (*engine.Node, error) {
	return settle(cfg, o.of(cfg))
}

// Sequencer is engine.Sequencer over dragonboat: the entries are raft's, their log is the node's own, and what is committed
// is applied on every node.
type Sequencer struct {
	o       Options
	group   format.RaftGroup
	log     *logstore.Store
	fatal   func(error)
	members map[uint64]dragonboat.Target
	joining bool
	fresh   bool // the log knows nothing of an earlier start

	shared   *host
	started  bool          // the library runs the group; guarded by shared.life
	stopped  chan struct{} // closed once it does not any more
	stopOnce sync.Once

	db       *LogDB               // that of shared, once the log is behind it
	host     *dragonboat.NodeHost // that of shared, once it is there
	links    *links
	session  *session
	applier  engine.Applier
	peer     engine.Peer
	opened   format.Index // what Start has replayed
	outcomes engine.Outcomes
	head     []byte // of the entry being applied
	joined   []byte // the entry being proposed
	elected  chan raftio.LeaderInfo
	// leftRounds is for how many rounds of the census the leader has lacked what this node needs.
	leftRounds int
	silent     map[format.Replica]int      // for how many rounds of it a member has not answered
	deployment *atomic.Uint64              // that of shared
	pulls      *rate                       // that of shared
	cluster    atomic.Pointer[format.UUID] // what its data is called (Report.Cluster), nil while that is not known
	streams    atomic.Int64                // images that the library wanted since the last round of the census
	ended      chan struct{}               // closed by Close and Kill
	loops      sync.WaitGroup
	giving     giving      // drain.go
	lent       atomic.Bool // the lead was offered to another one in this epoch

	mu struct {
		sync.Mutex
		room     sync.Cond
		inFlight int
		epoch    uint64 // counts the changes of leadership: proposals of an earlier one hold no room
		left     bool
		members  Members
		reports  map[format.Replica]Report
		heard    map[format.Replica]uint64 // how far others have said to have applied
		host     *dragonboat.NodeHost      // once it takes part
		held     bool                      // nothing is proposed: the leadership is about to move
		behind   map[format.Replica]bool   // was told of: it lacks what this node gave away
		images   int                       // copies of the state that are being taken: the floor stays
		wants    []want                    // floors that were wanted, the oldest first
		overdue  format.Index              // wanted for so long that it is held back for nobody
		dummyFor format.Index              // the floor wanted when the library last took a snapshot
		asked    map[format.Replica]int64  // monotonic time at which another node last asked this one something
		unheard  map[format.Replica]error  // why the last question to another node was not answered
		tapes    map[format.Replica]*tape  // copies of the state that are on their way
		pace     pace
		spread   spread
		glimpses map[format.Replica]glimpse // of nodes that answered lately
		placed   bool                       // an operator has moved the lead since the nodes that can lead changed
	}
}

var _ engine.Replicated = (*Sequencer)(nil)

// NewSequencer orders entries over log, which it owns once it is started. The directory of a single node is refused: it
// becomes the first node of a cluster by bootstrap.
func NewSequencer(log *logstore.Store, fatal func(error), o Options) (*Sequencer, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.group != firstGroup {
		o.Log = o.Log.With("group", o.group)
	}
	shared := o.shared
	if shared == nil {
		shared = newHost(o)
	}
	s := &Sequencer{o: o, group: o.group, log: log, fatal: fatal, elected: make(chan raftio.LeaderInfo, 1), ended: make(chan struct{}),
		stopped: make(chan struct{}), joining: o.Joining, fresh: true, shared: shared, deployment: &shared.deployment, pulls: &shared.pulls}
	s.mu.room.L = &s.mu.Mutex
	s.mu.heard, s.mu.behind, s.silent = map[format.Replica]uint64{}, map[format.Replica]bool{}, map[format.Replica]int{}
	s.mu.asked, s.mu.unheard, s.mu.tapes = map[format.Replica]int64{}, map[format.Replica]error{}, map[format.Replica]*tape{}
	s.members = map[uint64]dragonboat.Target{}
	if o.origin != nil {
		s.members, s.joining = o.origin.members, o.origin.joining
	} else if !o.Joining {
		for node, addr := range o.Peers {
			s.members[uint64(node)] = addr
		}
	}
	for _, r := range log.Replicas() {
		switch {
		case r.Group != s.group:
		case r.Bootstrap == nil:
			return nil, errors.New("replication: the data directory is a single node's: \"queen cluster bootstrap\" makes it the first of a cluster")
		case r.Replica != o.Node:
			return nil, fmt.Errorf("replication: the data directory is node %d's, not node %d's", r.Replica, o.Node)
		default:
			s.fresh = false
			s.members, s.joining = map[uint64]dragonboat.Target{}, r.Bootstrap.Join
			for _, m := range r.Bootstrap.Members {
				s.members[uint64(m.Replica)] = m.Address
			}
			if err := sameOwnAddress(&o, s.members); err != nil {
				return nil, err
			}
		}
	}
	if !s.joining {
		s.deployment.CompareAndSwap(0, deploymentOf(s.members)) // that of the first group is the cluster's
	}
	return s, nil
}

// Self implements engine.Replicated.
func (s *Sequencer) Self() format.Replica { return s.o.Node }

// Group implements engine.Sequencer.
func (s *Sequencer) Group() format.RaftGroup { return s.group }

// Log implements engine.Sequencer.
func (s *Sequencer) Log() *logstore.Store { return s.log }

// Prompt implements engine.Sequencer: a proposal takes as long as a majority does.
func (s *Sequencer) Prompt() bool { return false }

// errReplayed ends a replay.
var errReplayed = errors.New("replayed")

// Start implements engine.Sequencer: it replays what is known to be committed. There is no epoch yet.
func (s *Sequencer) Start(a engine.Applier, applied format.Index) (format.Term, error) {
	s.applier = a
	if err := s.startsAbove(applied); err != nil {
		return 0, err
	}
	committed := s.committed(applied)
	err := s.log.Replay(s.group, applied+1, func(v logstore.View) error {
		if v.Index > committed {
			return errReplayed
		}
		if v.Type != format.EntryEncoded {
			return nil // raft's own: elections and memberships
		}
		outcome, err := a.Apply(engine.Committed{Index: v.Index, Term: v.Term, Data: v.Head, Pos: v.Pos, Replayed: true,
			Outcome: v.Outcome, HasOutcome: v.Outcome != nil})
		if err == nil && v.Outcome == nil {
			s.outcomes.Add(s.group, s.o.Node, v.Index, v.Term, outcome)
		}
		return err
	})
	if err != nil && err != errReplayed {
		return 0, err
	}
	s.opened = committed
	return 0, nil
}

// committed is up to where the log is known to be committed: by the saved commit index, which is saved lazily, by the
// checkpoint, and by outcomes, which only committed entries have.
func (s *Sequencer) committed(applied format.Index) format.Index {
	st, _ := s.log.Replica(s.group, s.o.Node)
	i := max(st.Commit, applied)
	for _, seg := range s.log.Segments() {
		for g := range seg.Groups {
			if seg.Groups[g].Group != s.group {
				continue
			}
			for _, o := range seg.Groups[g].Outcomes {
				i = max(i, o.Last)
			}
		}
	}
	return max(min(i, st.Last), applied)
}

// Join implements engine.Replicated.
func (s *Sequencer) Join(p engine.Peer) error {
	s.peer = p
	s.noteCluster(p.Standing().Cluster)
	logTo(s.o.Log)
	if s.deployment.Load() == 0 {
		s.deployment.Store(p.Deployment())
	}
	s.links = newLinks(s)
	err := s.shared.enter(s)
	if err == nil {
		err = s.countStart()
	}
	if err == nil {
		err = s.guard(s.fresh)
	}
	if err == nil {
		err = s.shared.start(s)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.mu.host = s.host
	s.mu.Unlock()
	s.loops.Add(1)
	go s.census()
	return nil
}

// countStart makes durable that the directory was opened once more, since the others will remember it: an extent bears the
// number. An empty one writes its bootstrap record next.
func (s *Sequencer) countStart() error {
	st, _ := s.log.Replica(s.group, s.o.Node)
	if st.Bootstrap == nil {
		return nil
	}
	return s.log.Append(&logstore.Save{Group: s.group, Replica: s.o.Node, Bootstrap: st.Bootstrap})
}

// initial are the members to start with: those of the first start, always. One that joins is told.
func (s *Sequencer) initial() map[uint64]dragonboat.Target {
	if s.joining {
		return nil
	}
	return maps.Clone(s.members)
}

// hosted is the library's host, nil until this node takes part.
func (s *Sequencer) hosted() *dragonboat.NodeHost {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.host
}

// shardConfig are the settings of the raft group.
func (s *Sequencer) shardConfig() config.Config {
	return config.Config{
		ReplicaID: uint64(s.o.Node), ShardID: uint64(s.group),
		HeartbeatRTT: 2, ElectionRTT: electionTicks,
		// A leader that no majority answers steps down, so that it does not hold calls up; one that was away does not
		// disturb with a higher term.
		CheckQuorum: true, PreVote: true, OrderedConfigChange: true,
		// The state is made of the log and of the node's own checkpoints: the library takes no snapshots by itself, and its
		// log is given away only by the node (floor.go).
		// Who joined follows until it is promoted, which it reads in its log at every start.
		IsNonVoting:     s.joining,
		SnapshotEntries: 0, DisableAutoCompactions: true, CompactionOverhead: 1 << 40,
		// No limit of entries in memory: with one the leader is slowed down to its slowest follower. What is in flight is
		// bounded by inFlight and the size of an entry, a follower reads what it missed from the leader's log.
		MaxInMemLogSize: 0,
	}
}

// watch tells the node who leads.
func (s *Sequencer) watch() {
	defer s.loops.Done()
	for {
		select {
		case <-s.ended:
			return
		case info := <-s.elected:
			s.told(info.LeaderID, info.Term)
		}
	}
}

// told hands on who leads a term, 0 for nobody that is heard of.
func (s *Sequencer) told(node, term uint64) {
	s.o.Log.Info("leader", "node", node, "term", term)
	s.freeRoom()
	leader, epoch := format.Replica(node), format.Term(term)
	s.links.follow(leader, epoch)
	if leader != s.o.Node {
		s.peer.Follow(leader, epoch)
		return
	}
	s.peer.Follow(0, epoch)
	s.lent.Store(false) // behind the end of the lead before
	s.loops.Add(1)
	go func() {
		defer s.loops.Done()
		s.peer.Lead(epoch)
		s.yield()
	}()
}

// freeRoom gives the room of proposals back that an election may have ended.
func (s *Sequencer) freeRoom() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch++
	s.mu.inFlight, s.mu.held = 0, false
	s.mu.room.Broadcast()
}

// takeRoom waits for room for a proposal; false after Leave.
func (s *Sequencer) takeRoom() (epoch uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for (s.mu.inFlight >= inFlight || s.mu.held) && !s.mu.left {
		s.mu.room.Wait()
	}
	s.mu.inFlight++
	return s.mu.epoch, !s.mu.left
}

func (s *Sequencer) giveRoom(epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.epoch == epoch {
		s.mu.inFlight--
		s.mu.room.Broadcast()
	}
}

// Propose implements engine.Sequencer. The library copies the entry.
func (s *Sequencer) Propose(p *engine.Proposal) error {
	epoch, ok := s.takeRoom()
	if !ok {
		return nil
	}
	if cap(s.joined) > keptJoined {
		s.joined = nil
	}
	s.joined = p.AppendTo(s.joined[:0])
	for {
		// The library puts the byte in front by itself.
		rs, err := s.host.Propose(s.session.noop, s.joined[1:], proposeWithin)
		switch {
		case err == nil:
			go s.await(rs, p.Header, epoch)
			return nil
		case errors.Is(err, dragonboat.ErrSystemBusy):
			if s.rest(context.Background()) {
				continue
			}
		}
		s.giveRoom(epoch)
		if !s.isEnded() {
			h := p.Header
			go func() { // the caller holds what Dropped needs
				s.rest(context.Background())
				s.peer.Dropped(h)
			}()
		}
		return nil
	}
}

// await follows a proposal to its end.
func (s *Sequencer) await(rs *dragonboat.RequestState, h format.EntryHeader, epoch uint64) {
	select {
	case r := <-rs.ResultC():
		rs.Release()
		s.giveRoom(epoch)
		if r.Dropped() && s.rest(context.Background()) {
			s.peer.Dropped(h)
		}
	case <-s.ended:
	}
}

// rest pauses; false when the sequencer or ctx ended.
func (s *Sequencer) rest(ctx context.Context) bool { return s.restIn(ctx, pause) }

func (s *Sequencer) restFor(d time.Duration) bool { return s.restIn(context.Background(), d) }

func (s *Sequencer) restIn(ctx context.Context, d time.Duration) bool {
	t := s.o.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-ctx.Done():
	case <-s.ended:
	}
	return false
}

func (s *Sequencer) isEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// errEnded is what calls after Close come to.
var errEnded = errors.New("replication: the node has stopped")

// Barrier implements engine.Replicated by raft's read index: a majority confirms who leads, and what was committed
// then is waited for.
func (s *Sequencer) Barrier(ctx context.Context) error {
	for {
		rs, err := s.host.ReadIndex(uint64(s.group), 2*time.Second)
		if err == nil {
			select {
			case r := <-rs.ResultC():
				done := r.Completed()
				rs.Release()
				if done {
					return nil
				}
				err = errors.New("replication: nobody leads")
			case <-ctx.Done():
				return ctx.Err()
			case <-s.ended:
				return errEnded
			}
		}
		if !s.rest(ctx) {
			if s.isEnded() {
				return errEnded
			}
			return errors.Join(ctx.Err(), err)
		}
	}
}

// addressOf is the raft address of a node, "" for an unknown one.
func (s *Sequencer) addressOf(node format.Replica) string {
	if addr, ok := s.memberAddresses()[node]; ok {
		return addr
	}
	return s.o.Peers[node]
}

// Forward implements engine.Replicated.
func (s *Sequencer) Forward(h engine.Handover) { s.links.forward(&h) }

// FlushOutcomes implements engine.Sequencer. It makes the commit index durable as well: whoever asks is about to
// write down a state that it covers.
func (s *Sequencer) FlushOutcomes() error { return s.db.flushOutcomes(s.group, s.o.Node) }

// end stops what only the process's end stops otherwise.
func (s *Sequencer) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isEnded() {
		close(s.ended)
	}
	s.mu.left = true
	s.mu.room.Broadcast()
}

// Close implements engine.Sequencer.
func (s *Sequencer) Close() error {
	s.end()
	if s.links != nil {
		s.links.close()
	}
	s.shared.leave(s)
	s.loops.Wait()
	err := error(nil)
	if s.db != nil {
		err = s.FlushOutcomes()
		s.db.remove(s.group, s.log)
	}
	return errors.Join(err, s.log.Close())
}

// Kill ends the sequencer as far as that is possible inside a process: nothing more is written.
func (s *Sequencer) Kill() {
	s.end()
	if s.links != nil {
		s.links.close()
	}
	s.shared.forget(s)
	s.log.Kill()
}
