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
	"strings"
	"sync"
	"time"

	"crypto/tls"

	"github.com/zeebo/xxh3"

	"queen/engine"
	"queen/engine/format"
)

// Report is what a node says of itself when it is asked.
type Report struct {
	Node, Leader  uint64
	Epoch         uint64 // of the newest Term applied
	Applied, Last uint64 // entries applied, entries in its log
	Mark          uint64
	Disk          [16]byte
	Boot          uint64
	// KnownDisk and KnownBoot are what it remembers of the disk of who asks; zero for nothing.
	KnownDisk [16]byte
	// Address is a hash of the raft address under which it wants to be known.
	Address   uint64
	KnownBoot uint64
	// KnownApplied is up to where who asks said it had applied, as far as this node has heard since it started.
	KnownApplied uint64
	// Floor is the entry that its log begins behind: it was given away up to there.
	Floor uint64
	// Deployment is the number of its cluster, 0 while it does not know.
	Deployment uint64
	Flags      uint32
	// Version is the protocol and, in the high half, how many raft groups the cluster has, 0 where nothing says it (groupsOf).
	Version uint32
	// Commit is the newest entry that it knows to be committed.
	Commit uint64
	// Build is the version of its program, cut or filled up with zeros.
	Build [24]byte
}

// Release is the version of the node's program.
func (r *Report) Release() string { return strings.TrimRight(string(r.Build[:]), "\x00") }

// groups is how many raft groups the cluster has, as far as the node knows; 0 where nothing says it.
func (r *Report) groups() int { return int(r.Version >> 16) }

// Bits of Report.Flags.
const (
	// ReportLeads: it leads. ReportBorn: its cluster has a history. ReportSure: it was up to date when it answered.
	// ReportPart: it takes part; one that does not is still finding out whether it may. ReportGives: a copy of its state is on its way to
	// another node, which goes on in the log from there.
	ReportLeads = 1 << iota
	ReportBorn
	ReportSure
	ReportPart
	ReportGives
	// ReportDrains: an operator has it drain. ReportPlaced: as far as it knows an operator has moved the lead since the nodes that can lead
	// changed. ReportOpening: of the first raft group, and others do not take part yet.
	ReportDrains
	ReportPlaced
	ReportOpening
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

// readAnswer reads a length of words, the words of a refusal, and the report.
func readAnswer(c io.Reader) (r Report, err error) {
	var n uint32
	if err = binary.Read(c, binary.LittleEndian, &n); err != nil {
		return r, err
	}
	if n > maxWords {
		return r, fmt.Errorf("replication: an answer of %d bytes", n)
	}
	words := make([]byte, n)
	if _, err = io.ReadFull(c, words); err != nil {
		return r, err
	}
	if n > 0 {
		return r, refusal(words)
	}
	err = binary.Read(c, binary.LittleEndian, &r)
	return r, err
}

// refusal is why a node did not do what it was asked, in its words.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

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

// writeAnswer writes a refusal, or a report.
func writeAnswer(w io.Writer, r Report, refused error) error {
	var b bytes.Buffer
	if refused != nil {
		words := refused.Error()
		words = words[:min(len(words), maxWords)]
		_ = binary.Write(&b, binary.LittleEndian, uint32(len(words))) // to memory, as all here
		b.WriteString(words)
	} else {
		_ = binary.Write(&b, binary.LittleEndian, uint32(0))
		_ = binary.Write(&b, binary.LittleEndian, &r)
	}
	_, err := w.Write(b.Bytes())
	return err
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

// report is what this node says to another one.
func (s *Sequencer) report(asker format.Replica) Report {
	st := s.peer.Standing()
	r := Report{Node: uint64(s.o.Node), Epoch: uint64(st.Epoch), Applied: uint64(st.Applied), Mark: st.Mark,
		Version: protocol | uint32(s.saysGroups())<<16}
	disk, boot := s.log.Disk()
	r.Deployment = s.deployment.Load()
	r.Disk, r.Boot, r.Address = disk, boot, addressHash(s.o.Peers[s.o.Node])
	if log, ok := s.log.Replica(s.group, s.o.Node); ok {
		r.Last, r.Floor = uint64(log.Last), uint64(log.Floor)
		r.Commit = max(uint64(log.Commit), r.Applied)
	}
	copy(r.Build[:], s.o.Version)
	if h := s.hosted(); h != nil {
		r.Flags |= ReportPart
		if leader, _, ok, err := h.GetLeaderID(uint64(s.group)); err == nil && ok {
			r.Leader = leader
		}
	}
	if st.Leads {
		r.Flags |= ReportLeads
	}
	if st.Born {
		r.Flags |= ReportBorn
	}
	if s.drains(s.o.Node) {
		r.Flags |= ReportDrains
	}
	if s.leadsAll() {
		if _, err := s.shared.all(); err != nil {
			r.Flags |= ReportOpening
		}
	}
	if d, ok := s.peer.DiskOf(asker); ok && asker != 0 {
		r.KnownDisk, r.KnownBoot = d.ID, d.Boot
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.KnownApplied = s.mu.heard[asker]
	if s.mu.images > 0 {
		r.Flags |= ReportGives
	}
	if s.mu.placed {
		r.Flags |= ReportPlaced
	}
	return r
}

func addressHash(addr string) uint64 { return xxh3.HashString(addr) }

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
		maps.DeleteFunc(reports, func(_ format.Replica, r Report) bool { return s.isForeign(&r) })
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
