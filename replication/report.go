package replication

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/zeebo/xxh3"

	"queen/engine/format"
)

// Report is what a node says of itself when it is asked. On the wire a length stands before it: fields that a node adds at its end are nothing to
// one that does not know them, and zero where they do not come.
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
	// Cluster is what its cluster's data is called for ever, zero before its first entry. Clusters that began with the same nodes have one
	// Deployment, and each a Cluster of its own.
	Cluster [16]byte
	// Wall is its wall clock when it answered, in microseconds since 1970.
	Wall int64
	// KnownAddress is a hash of the raft address under which who asks is a member, 0 for none.
	KnownAddress uint64
}

// maxReport bounds a report on the wire, in bytes.
const maxReport = 4 << 10

// reportSize is that of a report as this node writes it.
var reportSize = binary.Size(Report{})

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
	// changed. ReportOpening: of the first raft group, and others do not take part yet. ReportFull: its disk gate is closed.
	ReportDrains
	ReportPlaced
	ReportOpening
	ReportFull
)

// readReport reads a length and as many bytes of a report.
func readReport(rd io.Reader) (r Report, err error) {
	var n uint32
	if err = binary.Read(rd, binary.LittleEndian, &n); err != nil {
		return r, err
	}
	if n > maxReport {
		return r, fmt.Errorf("replication: a report of %d bytes", n)
	}
	b := make([]byte, max(int(n), reportSize))
	if _, err = io.ReadFull(rd, b[:n]); err != nil {
		return r, err
	}
	err = binary.Read(bytes.NewReader(b), binary.LittleEndian, &r)
	return r, err
}

// readAnswer reads a length of words, the words of a refusal, and without any the report.
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
	return readReport(c)
}

// refusal is why a node did not do what it was asked, in its words.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

// writeAnswer writes a refusal, or a report.
func writeAnswer(w io.Writer, r Report, refused error) error {
	var b bytes.Buffer
	if refused != nil {
		words := refused.Error()
		words = words[:min(len(words), maxWords)]
		_ = binary.Write(&b, binary.LittleEndian, uint32(len(words))) // to memory, as all here
		b.WriteString(words)
	} else {
		_ = binary.Write(&b, binary.LittleEndian, [2]uint32{0, uint32(reportSize)})
		_ = binary.Write(&b, binary.LittleEndian, &r)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// report is what this node says to another one.
func (s *Sequencer) report(asker format.Replica) Report {
	st := s.peer.Standing()
	r := Report{Node: uint64(s.o.Node), Epoch: uint64(st.Epoch), Applied: uint64(st.Applied), Mark: st.Mark,
		Version: protocol | uint32(s.saysGroups())<<16, Cluster: st.Cluster, Wall: s.o.Clock.Now()}
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
	if st.Full {
		r.Flags |= ReportFull
	}
	if s.drains(s.o.Node) {
		r.Flags |= ReportDrains
	}
	if s.leadsAll() {
		if _, err := s.shared.all(); err != nil {
			r.Flags |= ReportOpening
		}
	}
	s.reportAsker(&r, asker)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.images > 0 {
		r.Flags |= ReportGives
	}
	if s.mu.placed {
		r.Flags |= ReportPlaced
	}
	return r
}

// reportAsker adds what is known here of who asks, 0 for a tool.
func (s *Sequencer) reportAsker(r *Report, asker format.Replica) {
	if asker == 0 {
		return
	}
	if d, ok := s.peer.DiskOf(asker); ok {
		r.KnownDisk, r.KnownBoot = d.ID, d.Boot
	}
	if addr, ok := s.memberAddresses()[asker]; ok {
		r.KnownAddress = addressHash(addr)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.KnownApplied = s.mu.heard[asker]
}

func addressHash(addr string) uint64 { return xxh3.HashString(addr) }
