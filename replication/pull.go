package replication

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"
	"github.com/zeebo/xxh3"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/logstore"
)

// behindError says that a node lacks what the others have given away, or is new to a log without a start: it takes a copy of
// another one's state before it takes part.
type behindError struct {
	target     engine.PullTarget
	from       []format.Replica // nodes to pull from, the best first
	addresses  map[format.Replica]string
	deployment uint64 // of the cluster, 0 for unknown
}

// Error implements error.
func (e *behindError) Error() string {
	return fmt.Sprintf("replication: the log of this node ends at entry %d, and that of the cluster begins behind it", e.target.Last)
}

// pullTries is how often a node that is behind asks every other one, pullPause how long it rests first and maxPullPause at last between,
// and pullSilence how long who sends may be silent.
const (
	pullTries    = 20
	pullPause    = time.Second
	maxPullPause = 30 * time.Second
	pullSilence  = time.Minute
)

// settle opens a node, and lets it catch up first when it has to.
func settle(cfg engine.Config, o Options) (*engine.Node, error) {
	for {
		n, err := engine.OpenWith(cfg, func(log *logstore.Store, fatal func(error)) (engine.Sequencer, error) {
			s, err := NewSequencer(log, fatal, o)
			if err == nil {
				err = s.behind()
			}
			return s, err
		})
		var behind *behindError
		if !errors.As(err, &behind) {
			return n, err
		}
		if err := pull(cfg, o.withDefaults(), behind); err != nil {
			return nil, err
		}
	}
}

// pull tries every source, again and again for a while.
func pull(cfg engine.Config, o Options, b *behindError) error {
	lock, err := engine.LockDir(cfg)
	if err != nil {
		return err
	}
	defer lock.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if o.quit != nil {
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			select {
			case <-o.quit:
				cancel()
			case <-stop:
			}
		}()
	}
	var errs error
	for try := range pullTries {
		errs = nil
		for _, node := range b.from {
			addr := b.addresses[node]
			o.Log.Info("pulling a copy of another node's state", "from", addr, "try", try+1)
			err := pullFrom(ctx, cfg, o, b, node)
			if err == nil {
				o.Log.Info("pulled a copy of another node's state", "from", addr)
				return nil
			}
			o.Log.Warn("no copy of another node's state", "from", addr, "err", err)
			errs = errors.Join(errs, fmt.Errorf("from %s: %w", addr, err))
		}
		t := o.Clock.NewTimer(min(pullPause<<min(try, 5), maxPullPause))
		select {
		case <-t.C():
		case <-ctx.Done():
			t.Stop()
			return errEnded
		}
	}
	return fmt.Errorf("replication: no node gave a copy of its state: %w", errs)
}

// pullFrom takes a copy of one node's state.
func pullFrom(ctx context.Context, cfg engine.Config, o Options, b *behindError, node format.Replica) error {
	r := &taker{ctx: ctx, log: o.Log, clock: o.Clock, sum: xxh3.New(), of: node, deployment: b.deployment,
		dial: func(where string) (net.Conn, error) {
			q := &request{Protocol: protocolOf(b.target.Group), Ask: askPull, Node: uint64(o.Node), Of: uint64(o.Node)}
			return dialAsk(ctx, b.addresses[node], o.TLS, q, where)
		},
		rest: func(tries int) bool {
			timer := o.Clock.NewTimer(takerPause(tries))
			defer timer.Stop()
			select {
			case <-timer.C():
				return true
			case <-ctx.Done():
				return false
			}
		}}
	defer r.close()
	if err := r.open(""); err != nil {
		return err
	}
	record, err := readRecord(r)
	if err != nil {
		return err
	}
	t := b.target
	t.Record = recordOf(uint64(t.Group), uint64(o.Node), &record)
	return engine.ReadImage(ctx, cfg, t, r)
}

// steadyConn gives up when nothing moves for too long.
type steadyConn struct {
	net.Conn
	within time.Duration
}

// Read implements net.Conn.
func (c *steadyConn) Read(b []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(c.within))
	return c.Conn.Read(b)
}

// Write implements net.Conn.
func (c *steadyConn) Write(b []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(c.within))
	return c.Conn.Write(b)
}

// behind returns nil when this node's log goes on in that of the others, or nobody says otherwise; a *behindError when it has to
// pull; and any other error when its disk must not vote: then nothing is put onto it either.
func (s *Sequencer) behind() error {
	joins := s.joining && s.fresh
	if len(s.others()) == 0 {
		return nil
	}
	id, boot := s.log.Disk()
	st, _ := s.log.Replica(s.group, s.o.Node)
	for tries := 0; ; tries++ {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		reports := s.poll(ctx, askReport)
		cancel()
		if err := s.learnDeployment(reports); err != nil {
			return err
		}
		if _, err := judge(engine.Disk{ID: id, Boot: boot}, uint64(st.Last), s.fresh, reports, nil); err != nil {
			return err
		}
		if from := sources(reports, uint64(st.Last)); len(from) > 0 {
			t := engine.PullTarget{Group: s.group, Replica: s.o.Node, Bootstrap: st.Bootstrap, State: st.State, Disk: id, Boot: boot, Last: st.Last}
			if t.Bootstrap == nil {
				t.Bootstrap = &format.Bootstrap{Group: s.group, Replica: s.o.Node, Join: true, Type: uint8(pb.OnDiskStateMachine)}
			}
			return &behindError{target: t, from: from, addresses: s.others(), deployment: s.deployment.Load()}
		}
		if !joins || isLed(reports, s.others()) {
			return nil
		}
		if tries%20 == 10 {
			s.o.Log.Warn("waiting for other nodes, which know what this one joins", "answer", len(reports), "of", len(s.others()), "err", s.whyUnheard())
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

// isLed reports that who leads is among those that answer, of a group that has a history, or can not be asked, not being among the peers. Who
// joins has to know what it joins, and what the log of who leads begins with: while nobody leads the next one may lack the start that another
// one still has. Others than those that join may be the first to start.
func isLed(reports map[format.Replica]Report, peers map[format.Replica]string) bool {
	for _, r := range reports {
		_, asked := peers[format.Replica(r.Leader)]
		if r.Flags&ReportBorn != 0 && (r.Flags&ReportLeads != 0 || r.Leader != 0 && !asked) {
			return true
		}
	}
	return false
}

// sources are the nodes to pull from when a log that ends at last can not go on in those of the others: that of who leads has no
// such entry any more, or nobody leads and none has it. Followers come first.
func sources(reports map[format.Replica]Report, last uint64) (from []format.Replica) {
	lacking, leads := 0, format.Replica(0)
	for node, r := range reports {
		switch {
		case r.Flags&ReportLeads != 0 && r.Floor <= last:
			return nil
		case r.Floor > last:
			lacking++
		}
		switch {
		case r.Floor == 0:
		case r.Flags&ReportLeads != 0:
			leads = node
		default:
			from = append(from, node)
		}
	}
	if leads != 0 {
		return append(from, leads)
	}
	if lacking < len(reports) {
		return nil
	}
	return from
}

// answerPull serves a pull of a member for as long as its connection lasts: a new one, or one that broke off where it says. ctx bounds
// the answer, not what follows it.
func (l *links) answerPull(ctx context.Context, c net.Conn, node format.Replica, where string) {
	var t *tape
	var at uint64
	err := fmt.Errorf("replication: node %d is no member of this cluster, as far as node %d knows", node, l.s.o.Node)
	if l.s.knows(ctx, node) {
		t, at, err = l.tapeFor(ctx, node, where)
	}
	if err == nil {
		err = t.begin(c, at)
	}
	if err != nil {
		l.s.o.Log.Info("a copy of this node's state is not to be had", "by", c.RemoteAddr(), "err", err)
		_ = writeAnswer(c, Report{}, err) // who asks again gets another answer
		return
	}
	_ = c.SetDeadline(time.Time{})
	var to io.Writer = &steadyConn{c, pullSilence}
	if l.s.o.PullRate > 0 {
		to = &ratedWriter{t.ctx, to, l.s.pulls}
	}
	err = errors.Join(writeAnswer(to, l.s.report(0), nil), writeNumber(to, t.number))
	if err != nil {
		c.Close()
	}
	if err = errors.Join(err, t.play(c, to, at)); err != nil {
		l.s.o.Log.Info("a copy of this node's state broke off", "by", c.RemoteAddr(), "err", err)
	}
}

// tapeFor finds the tape that a node asks for: a new one for "", else one that is under way, by its number and the bytes that came.
func (l *links) tapeFor(ctx context.Context, node format.Replica, where string) (t *tape, at uint64, err error) {
	if where == "" {
		t, err = l.record(ctx, node)
		return t, 0, err
	}
	var number uint64
	if _, err := fmt.Sscanf(where, "%d %d", &number, &at); err != nil {
		return nil, 0, fmt.Errorf("replication: %q: want the number of a copy, and of the bytes that came", where)
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if t = l.s.mu.tapes[node]; t == nil || t.number != number {
		return nil, 0, errTapeEnded
	}
	return t, at, nil
}

// record begins a tape of this node's state for another node, in place of one that was under way. While it is written the floor stays
// where it is. asked is for how long who asks waits for its beginning.
func (l *links) record(asked context.Context, node format.Replica) (*tape, error) {
	s := l.s
	if s.isFull() {
		return nil, errTapeFull
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-s.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	s.holdFloor(1)
	waits, done := context.WithCancel(asked)
	defer done()
	defer context.AfterFunc(ctx, done)()
	im, err := s.peer.Image(waits)
	var record pb.Snapshot
	if err == nil {
		base, _ := im.Base()
		if record, err = s.recordAt(base); err != nil {
			im.Close()
		}
	}
	if err != nil {
		cancel()
		s.holdFloor(-1)
		return nil, err
	}
	t := newTape(ctx, s.o.Clock, rand.Uint64()|1)
	s.mu.Lock()
	before := s.mu.tapes[node]
	s.mu.tapes[node] = t
	s.mu.Unlock()
	if before != nil {
		before.cancel()
	}
	l.done.Add(1)
	go func() {
		defer l.done.Done()
		defer cancel()
		err := writeRecord(t, &record)
		if err == nil {
			err = im.WriteTo(t.ctx, t)
		}
		im.Close()
		s.holdFloor(-1)
		if err == nil {
			t.finish()
			<-t.ctx.Done()
		} else {
			s.o.Log.Info("a copy of this node's state was not written to its end", "for", node, "err", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.mu.tapes[node] == t {
			delete(s.mu.tapes, node)
		}
	}()
	return t, nil
}

func (s *Sequencer) holdFloor(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.images += by
}

// errMember: the membership at an entry is that of the record before it unless it changed between.
var errMember = errors.New("replication: the membership changed lately: a copy can be taken once the log is given away beyond that")

// recordAt makes the record of an entry above the floor: the membership is that of the newest record below it, which may be one that is
// only kept in memory. The floor's alone would not do: it can be held back by the very node that was added since, and wants the copy.
func (s *Sequencer) recordAt(base format.Index) (p pb.Snapshot, err error) {
	st, _ := s.log.Replica(s.group, s.o.Node)
	term, ok := s.log.Term(s.group, s.o.Node, base)
	if st.Snapshot == nil || st.Floor == 0 || !ok || st.Snapshot.Index > base {
		return p, errors.New("replication: this node has all of its log: it can be followed by entries")
	}
	p = snapshotOf(uint64(s.group), st.Snapshot)
	if newer, ok := s.db.dummyAt(uint64(s.group), uint64(s.o.Node), uint64(base)); ok && newer.Index > p.Index {
		p = newer
	}
	changed := false
	err = s.log.Replay(s.group, format.Index(p.Index)+1, func(v logstore.View) error {
		if v.Index > base {
			return errReplayed
		}
		changed = changed || v.Type == format.EntryType(pb.ConfigChangeEntry)
		return nil
	})
	if err != nil && err != errReplayed {
		return p, err
	}
	if changed {
		return p, errMember
	}
	p.Index, p.Term, p.OnDiskIndex = uint64(base), uint64(term), uint64(base)
	return p, nil
}

// maxRecord bounds a snapshot record on the wire: a membership.
const maxRecord = 1 << 20

func writeRecord(w io.Writer, p *pb.Snapshot) error {
	b := pb.MustMarshal(p)
	if err := binary.Write(w, binary.LittleEndian, uint32(len(b))); err != nil {
		return err
	}
	_, err := w.Write(b)
	return err
}

func readRecord(r io.Reader) (p pb.Snapshot, err error) {
	var n uint32
	if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
		return p, err
	}
	if n > maxRecord {
		return p, fmt.Errorf("replication: a record of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return p, err
	}
	return p, p.Unmarshal(b)
}

// reattach moves the leadership when a member that has pulled a copy can not be served by this leader: the library remembers where the
// member's log ended before, finds that gone, and sends it no entries that would tell it better. The next leader asks everybody
// anew. Such a member is one whose log reaches into this node's and does not grow from one round of the census to the next, while
// the library wants to send an image to somebody.
func (s *Sequencer) reattach(ctx context.Context, before, reports map[format.Replica]Report, own logstore.ReplicaState) {
	if s.streams.Swap(0) == 0 {
		return
	}
	stuck := stuckMembers(before, reports, own)
	if len(stuck) == 0 {
		return
	}
	s.mu.Lock()
	voters := maps.Clone(s.mu.members.Voters)
	s.mu.Unlock()
	var heirs []format.Replica
	for node, r := range reports {
		if _, votes := voters[node]; votes && r.Flags&ReportPart != 0 && !slices.Contains(stuck, node) {
			heirs = append(heirs, node)
		}
	}
	slices.SortFunc(heirs, func(a, b format.Replica) int {
		return cmp.Or(cmp.Compare(reports[b].Applied, reports[a].Applied), cmp.Compare(a, b))
	})
	for _, node := range heirs {
		s.o.Log.Info("the leadership moves, since this leader does not reach nodes that pulled a copy", "nodes", stuck, "to", node)
		if err := s.Transfer(ctx, node); err == nil || !s.leads() {
			return
		}
	}
	s.peer.Alarm(fmt.Sprintf("nodes %v pulled a copy, and this leader does not reach them", stuck),
		errors.New("no other node can lead: they are served once this node was started again"))
}

// stuckMembers are those whose log reaches into own, and ended where it does now already a round ago, when own went further.
func stuckMembers(before, reports map[format.Replica]Report, own logstore.ReplicaState) (stuck []format.Replica) {
	for node, r := range reports {
		b, ok := before[node]
		if ok && r.Flags&ReportPart != 0 && b.Flags&ReportPart != 0 && r.Last == b.Last && format.Index(r.Last) >= own.Floor &&
			format.Index(r.Last) < own.Last {
			stuck = append(stuck, node)
		}
	}
	slices.Sort(stuck)
	return stuck
}
