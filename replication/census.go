package replication

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"crypto/tls"

	"queen/engine"
	"queen/engine/format"
)

// What a node can be asked.
type ask uint32

const (
	askReport   ask = 1
	askSure     ask = 2 // a report of a node that makes sure first that it is up to date
	askTransfer ask = 3 // of the first raft group: that a node leads all
	askAdd      ask = 4
	askPromote  ask = 5
	askRemove   ask = 6
	askPull     ask = 8 // a copy of its state, which follows the report: a new one, or where one broke off (tape.go)
	askDrain    ask = 9
	askUndrain  ask = 10
	askLead     ask = 11 // that a node leads this raft group alone
)

// request is what is asked; an address follows it, or what else is to be said (patience, tapeFor).
type request struct {
	Magic    [4]byte
	Protocol uint32 // and the raft group (protocolOf)
	Ask      ask
	AddrLen  uint32
	Node     uint64 // who asks, 0 for a tool
	Of       uint64 // which node it is about
}

// bytes are those of a question on the wire.
func (q *request) bytes(addr string) []byte {
	copy(q.Magic[:], requestMagic)
	q.AddrLen = uint32(len(addr))
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, q) // to memory
	b.WriteString(addr)
	return b.Bytes()
}

// readRequest reads a question whose beginning has come.
func readRequest(c io.Reader, head []byte) (q request, addr string, err error) {
	_ = binary.Read(bytes.NewReader(head), binary.LittleEndian, &q) // it is as long as that
	if q.AddrLen > maxAddr {
		return q, "", fmt.Errorf("replication: a question with an address of %d bytes", q.AddrLen)
	}
	b := make([]byte, q.AddrLen)
	_, err = io.ReadFull(c, b)
	return q, string(b), err
}

const (
	requestMagic = "qnrq"
	maxAddr      = 256
	maxWords     = 4096
	// answerWithin bounds a question, whatever it takes.
	answerWithin = 10 * time.Second
)

// query asks another node one thing about this raft group.
func (s *Sequencer) query(ctx context.Context, raft string, a ask, of format.Replica, addr string) (Report, error) {
	return exchange(ctx, raft, s.o.TLS, &request{Protocol: protocolOf(s.group), Ask: a, Node: uint64(s.o.Node), Of: uint64(of)}, addr)
}

// exchange asks a node a question, and reads the answer.
func exchange(ctx context.Context, raft string, t *TLS, q *request, addr string) (r Report, err error) {
	c, err := dialAsk(ctx, raft, t, q, addr)
	if err != nil {
		return r, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	return readAnswer(c)
}

// dialAsk connects to a node and asks; the answer is to be read.
func dialAsk(ctx context.Context, raft string, t *TLS, q *request, addr string) (net.Conn, error) {
	side, err := sideAddress(raft)
	if err != nil {
		return nil, err
	}
	c, err := (&net.Dialer{Timeout: dialWithin}).DialContext(ctx, "tcp", side)
	if err != nil {
		return nil, err
	}
	if t != nil {
		c = tls.Client(c, t.clientConfig(side))
	}
	// The handshake is part of the write, and knows no context.
	stop := context.AfterFunc(ctx, func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(answerWithin))
	_, err = c.Write(q.bytes(addr))
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// answer serves a question about this raft group; its address is still to be read.
func (l *links) answer(c net.Conn, head []byte) {
	q, addr, err := readRequest(c, head)
	if err != nil {
		return
	}
	l.s.noteAsked(format.Replica(q.Node))
	_ = c.SetDeadline(time.Now().Add(answerWithin))
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin-time.Second)
	defer cancel()
	if q.Ask == askPull {
		l.answerPull(ctx, c, format.Replica(q.Node), addr)
		return
	}
	r, err := l.s.serveAsk(ctx, &q, addr)
	_ = writeAnswer(c, r, err) // who asks again gets another answer
}

func (s *Sequencer) serveAsk(ctx context.Context, q *request, addr string) (Report, error) {
	var err error
	switch q.Ask {
	case askReport:
	case askSure:
		// Without a leader it would wait for nothing, and who starts would wait for it.
		if leader, _, _ := s.whoLeads(); leader != 0 && s.peer.Standing().Born {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if s.Barrier(short) == nil {
				_ = s.knows(short, format.Replica(q.Node)) // one that was added a moment ago is told under which address
				r := s.report(format.Replica(q.Node))
				r.Flags |= ReportSure
				return r, nil
			}
		}
	case askTransfer, askLead:
		move := s.place
		if q.Ask == askTransfer {
			move = s.transferAll
		}
		ctx, cancel := withPatience(ctx, addr)
		defer cancel()
		if err = s.mayLead(format.Replica(q.Of)); err == nil {
			err = move(ctx, format.Replica(q.Of))
		}
	case askDrain, askUndrain:
		err = s.drain(ctx, format.Replica(q.Of), q.Ask == askDrain)
	case askAdd, askPromote, askRemove:
		err = s.changeAll(ctx, q.Ask, format.Replica(q.Of), addr)
	default:
		err = fmt.Errorf("replication: question %d is not known here", q.Ask)
	}
	return s.report(format.Replica(q.Node)), err
}

// poll asks every other node for its report at once; those that do not answer are missing.
func (s *Sequencer) poll(ctx context.Context, a ask) map[format.Replica]Report {
	var mu sync.Mutex
	var wg sync.WaitGroup
	found := map[format.Replica]Report{}
	for node, addr := range s.others() {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r, err := s.query(ctx, addr, a, s.o.Node, "")
			if err == nil && r.Node != uint64(node) {
				err = fmt.Errorf("node %d answers", r.Node)
			}
			s.noteAnswer(node, err)
			if err == nil {
				s.noteGlimpse(node, &r)
				mu.Lock()
				defer mu.Unlock()
				found[node] = r
			}
		}()
	}
	wg.Wait()
	return found
}

// others are the raft addresses of the other nodes that are known.
func (s *Sequencer) others() map[format.Replica]string {
	all := maps.Clone(s.o.Peers)
	for node, addr := range s.memberAddresses() {
		all[node] = addr
	}
	delete(all, s.o.Node)
	return all
}

// censusEvery is how often nodes ask each other.
const censusEvery = time.Second

// census keeps the reports of the others, and has the cluster remember whose disk is whose.
func (s *Sequencer) census() {
	defer s.loops.Done()
	for s.restFor(censusEvery) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*censusEvery)
		st, _ := s.log.Replica(s.group, s.o.Node)
		began, furthest := s.o.Clock.Mono(), s.furthest()
		reports := s.poll(ctx, askReport)
		cancel()
		// A node that swallows what it is sent has taken all of that time; what follows has its own.
		ctx, cancel = context.WithTimeout(context.Background(), 2*censusEvery)
		s.noteCluster(s.peer.Standing().Cluster)
		maps.DeleteFunc(reports, func(_ format.Replica, r Report) bool { return s.isForeign(&r) })
		if err := s.stillItself(reports); err != nil {
			cancel()
			s.fatal(err)
			return
		}
		s.learnMembers(ctx)
		s.mu.Lock()
		before := s.mu.reports
		s.mu.reports = reports
		s.mu.pace.note(began, furthest)
		for node, r := range reports {
			s.mu.heard[node] = max(s.mu.heard[node], r.Applied)
		}
		s.mu.Unlock()
		if s.group == firstGroup {
			s.noteSilent() // once for all groups: the port is the same
			s.watchGroups()
			s.endWithdrawn()
		}
		s.shared.quiet.note(s.group, st.Last)
		s.noteLeftBehind(reports, st.Floor)
		s.watchBehind(reports)
		s.watchTapes()
		if s.peer.Standing().Leads {
			s.reattach(ctx, before, reports, st)
			all := maps.Clone(reports) // others read what was kept
			all[s.o.Node] = s.report(0)
			s.noteDisks(ctx, all)
			s.noteDeployment(ctx)
			s.forgetRemoved(ctx)
		}
		cancel()
		s.yieldSoon()
		s.spreadLead(reports)
	}
}

func (s *Sequencer) noteDisks(ctx context.Context, reports map[format.Replica]Report) {
	for _, node := range slices.Sorted(maps.Keys(reports)) {
		r := reports[node]
		if r.Flags&ReportPart == 0 {
			continue
		}
		d := engine.Disk{ID: r.Disk, Boot: r.Boot}
		known, ok := s.peer.DiskOf(node)
		switch {
		case !ok || known.ID == d.ID && known.Boot < d.Boot:
			if err := s.peer.NoteDisk(ctx, node, d); err != nil {
				s.o.Log.Debug("a node's disk was not noted", "node", node, "err", err)
			}
		case known.ID != d.ID:
			s.peer.Alarm(fmt.Sprintf("node %d runs on another disk than before", node), nil)
		}
	}
}

// Reports are what the other nodes said last.
func (s *Sequencer) Reports() map[format.Replica]Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.mu.reports)
}
