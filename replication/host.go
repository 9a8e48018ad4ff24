package replication

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	sm "github.com/lni/dragonboat/v4/statemachine"

	"queen/engine/format"
)

// host is what the raft groups of a process share: the library's host with its log storage, the port above raft's, the number of the
// cluster, and the rate of what is sent to nodes that pull. The first group that joins opens it, the last one that leaves closes it; then
// it may be opened again.
type host struct {
	o          Options
	db         *LogDB
	deployment atomic.Uint64 // the cluster's number, 0 until it is known (deployment.go)
	pulls      rate          // of what is sent to nodes that pull, if Options.PullRate is set
	quiet      quiet         // of all groups (groupconfig.go)
	withdrawn  withdrawn     // judges connections anew; the census of the first group's
	wires      atomic.Pointer[transport]
	addresses  addresses // of the members of all groups

	// life is held while a group starts or stops: the library's host does not bear to be closed meanwhile. A kill does not wait for it.
	life sync.Mutex
	nh   *dragonboat.NodeHost // nil while no group takes part

	mu struct {
		sync.RWMutex
		groups map[format.RaftGroup]*Sequencer // those that joined
		door   *door                           // nil without any
	}
}

func newHost(o Options) *host {
	h := &host{o: o, db: newLogDB()}
	h.pulls.clock, h.pulls.perSecond = o.Clock, o.PullRate
	h.addresses.log, h.addresses.clock = o.Log, o.Clock
	h.mu.groups = map[format.RaftGroup]*Sequencer{}
	return h
}

// enter puts a group's log behind the library, and lets other nodes reach the group.
func (h *host) enter(s *Sequencer) error {
	h.life.Lock()
	defer h.life.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.groups[s.group] != nil {
		return fmt.Errorf("replication: raft group %d is open already", s.group)
	}
	if h.mu.door == nil {
		d, err := openDoor(h.o, h.linksOf)
		if err != nil {
			return err
		}
		h.mu.door = d
	}
	h.db.open(s.group, s.log, s.opened, s.outcomes.Take)
	s.db = h.db
	h.mu.groups[s.group] = s
	return nil
}

// linksOf are the links of a group, nil for one that is not open here.
func (h *host) linksOf(g format.RaftGroup) *links {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if s := h.mu.groups[g]; s != nil {
		return s.links
	}
	return nil
}

// start has a group that entered take part.
func (h *host) start(s *Sequencer) error {
	h.life.Lock()
	defer h.life.Unlock()
	if h.nh == nil {
		nh, err := dragonboat.NewNodeHost(h.hostConfig())
		if err != nil {
			return fmt.Errorf("replication: %s: %w", h.o.Listen, err)
		}
		h.nh = nh
	}
	h.addresses.learn(s.group, s.memberAddresses())
	s.host, s.session = h.nh, newSession(h.nh, s.group)
	s.loops.Add(1)
	go s.watch()
	create := func(uint64, uint64) sm.IOnDiskStateMachine { return (*stateMachine)(s) }
	if err := h.nh.StartOnDiskReplica(s.initial(), s.joining, create, s.shardConfig()); err != nil {
		return fmt.Errorf("replication: node %d: %w", s.o.Node, err)
	}
	s.started = true
	return nil
}

// forget keeps other nodes from a group, and closes the port behind the last one, which it reports.
func (h *host) forget(s *Sequencer) (last bool) {
	h.mu.Lock()
	if h.mu.groups[s.group] == s {
		delete(h.mu.groups, s.group)
	}
	last = len(h.mu.groups) == 0
	d := h.mu.door
	if last {
		h.mu.door = nil
	}
	h.mu.Unlock()
	if last && d != nil {
		d.close() // without mu, which who comes through it may want
	}
	return last
}

// leave takes a group out of the library's host, and returns once the library neither applies entries of it nor writes to its log. The
// others go on.
func (h *host) leave(s *Sequencer) {
	h.life.Lock()
	defer h.life.Unlock()
	last := h.forget(s)
	switch {
	case h.nh == nil:
	case last:
		h.nh.Close()
		h.nh = nil
	case s.started:
		if err := h.nh.StopShard(uint64(s.group)); err != nil {
			s.o.Log.Warn("the raft group was stopped already", "err", err)
		}
		<-s.stopped // StopShard does not wait
	}
	s.started = false
}

// hostConfig are the settings of the library's host.
func (h *host) hostConfig() config.NodeHostConfig {
	c := config.NodeHostConfig{
		NodeHostDir: h.o.Dir, RTTMillisecond: uint64(h.o.Tick / time.Millisecond), RaftAddress: h.o.Peers[h.o.Node],
		RaftEventListener: (*listener)(h), DeploymentID: h.deployment.Load(),
		// What one slow peer may make this node keep, and what it takes from one that sends too fast; beyond it messages are
		// dropped, which raft repairs.
		MaxSendQueueSize: 64 << 20, MaxReceiveQueueSize: 64 << 20,
	}
	if h.o.Listen != c.RaftAddress {
		c.ListenAddress = h.o.Listen
	}
	o := h.o
	o.shared = h
	c.Expert.TransportFactory = transports{o, &h.wires}
	c.Expert.LogDBFactory = logDBFactory{h.db}
	// One step worker: all groups share its saves, and thereby its flushes, of which a disk has few. It can not be changed on
	// an existing directory. A group is applied by the worker of its number modulo ApplyShards: each by another one.
	c.Expert.Engine = config.EngineConfig{ExecShards: 1, CommitShards: 1, ApplyShards: uint64(max(2, h.o.groups())), SnapshotShards: 2,
		CloseShards: 1}
	return c
}

// listener hears of elections, in a goroutine of the library that must not be held up.
type listener host

// LeaderUpdated implements raftio.IRaftEventListener. Of each group only the newest counts, and of each one is kept: that of another
// group does not replace it.
func (l *listener) LeaderUpdated(info raftio.LeaderInfo) {
	l.mu.RLock()
	s := l.mu.groups[format.RaftGroup(info.ShardID)]
	l.mu.RUnlock()
	if s == nil {
		return
	}
	for {
		select {
		case s.elected <- info:
			return
		case <-s.elected:
		}
	}
}
