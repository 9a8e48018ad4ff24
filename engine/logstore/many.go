package logstore

import (
	"cmp"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"queen/engine/format"
	"queen/engine/vfs"
)

// Want is one range that ReadMany reads: Pos, Off and N are those of ReadIndexed, which could read it as well. What was
// read is appended to Data; Index and Err are the other answers.
type Want struct {
	Pos    EntryPos
	Off, N uint32
	Data   []byte
	Index  format.Index
	Err    error

	state wantState
}

type wantState uint8

const (
	wantOpen  wantState = iota
	wantDone            // it is answered
	wantAlone           // ReadIndexed is to answer it
)

const (
	// runGap is how many bytes that nobody wants are read rather than asking the disk once more.
	runGap = 32 << 10
	// runMost bounds one read of a file; what is longer is read alone.
	runMost = 512 << 10
	// headRead is read of a record to learn its head, when what is wanted lies far behind it.
	headRead = format.BlockSize
	// headRoom is what may lie between a record's head and an entry or frame in it: a longer list of refused messages
	// is read alone.
	headRoom = 512
	// runsAtOnce bounds the reads of one call that are under way, runsOfAll those of all calls in the process.
	runsAtOnce = 4
	runsOfAll  = 8
)

// runBuffers are the memory that runs are read into, runsOfAll times runMost at most; nil is one that is not made yet.
// Who finds none waits for others' reads.
var runBuffers = func() chan []byte {
	c := make(chan []byte, runsOfAll)
	for range runsOfAll {
		c <- nil
	}
	return c
}()

// ReadMany reads ranges as ReadIndexed does, and answers each of them. What only files hold and lies together is read at
// once, in the order of the log, a few reads at a time: an extent holds frames of many partitions, and who reads all
// of them one by one waits for the disk as often as there are frames.
//
// It only saves reads: whatever could not be found in what was read together, for any reason, is read alone, and what
// ReadIndexed says of it is the answer. Bytes that were read together are kept no longer than the call.
func (s *Store) ReadMany(wants []Want) {
	if cold := s.readRecent(wants); len(cold) > 1 {
		// The second time for what lies far behind a head that nobody knew the first time.
		for range 2 {
			runs := runsOf(s.needs(wants, cold))
			if len(runs) == 0 {
				break
			}
			s.readRuns(wants, runs)
		}
	}
	for i := range wants {
		if w := &wants[i]; w.state != wantDone {
			w.Data, w.Index, w.Err = s.ReadIndexed(w.Pos, w.Off, w.N, w.Data)
			w.state = wantDone
		}
	}
}

// readRecent answers what memory holds and returns the numbers of those of the others that may be read together.
func (s *Store) readRecent(wants []Want) (cold []int) {
	for i := range wants {
		w := &wants[i]
		w.Index, w.Err, w.state = 0, nil, wantOpen
		if w.N <= smallRead {
			if b, index, ok := s.tail.entry(w.Data, w.Pos.Segment, w.Pos.Pos, w.Off, w.N); ok {
				w.Data, w.Index, w.state = b, index, wantDone
				continue
			}
		}
		if w.N < runMost && !s.tail.holds(w.Pos.Segment, w.Pos.Pos) {
			cold = append(cold, i)
		}
	}
	return cold
}

// need is the part of a segment that a want is read from: the range itself where the record's head is known, which begins
// at from then, else with the head, or the head alone where the range is far behind it.
type need struct {
	segment  uint32
	from, to int64
	want     int
	head     format.RecordHead
	prefix   uint32
	known    bool
}

// needs lists what open wants need, in the order of the log.
func (s *Store) needs(wants []Want, cold []int) []need {
	all := make([]need, 0, len(cold))
	for _, i := range cold {
		w := &wants[i]
		if w.state != wantOpen {
			continue
		}
		n := need{segment: w.Pos.Segment, from: int64(w.Pos.Pos), want: i}
		n.head, n.prefix, n.known = s.heads.get(w.Pos.Segment, w.Pos.Pos)
		// What the head's checksum covers is verified at every read, from the record's start on.
		n.known = n.known && w.Off > n.head.Covered
		switch {
		case n.known && !inPiece(&n.head, n.prefix, w):
			from, ok := s.inFragment(&n.head, n.prefix, w)
			if !ok {
				w.state = wantAlone
				continue
			}
			n.from, n.to = from, from+int64(w.N)
		case n.known:
			n.from += format.RecordHeadSize + int64(n.prefix) + int64(w.Off)
			n.to = n.from + int64(w.N)
		case w.Off <= smallRead:
			n.to = n.from + format.RecordHeadSize + headRoom + int64(w.Off) + int64(w.N)
		default:
			n.to = n.from + headRead
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b need) int {
		return cmp.Or(cmp.Compare(a.segment, b.segment), cmp.Compare(a.from, b.from))
	})
	return all
}

// inPiece says that a want lies in the record whose head this is, and that the record is one piece.
func inPiece(head *format.RecordHead, prefix uint32, w *Want) bool {
	return head.Length <= format.FragmentBytes && uint64(prefix)+uint64(w.Off)+uint64(w.N) <= uint64(head.Length)
}

// inFragment says where a want begins that lies in one fragment of the record whose joined head this is.
func (s *Store) inFragment(head *format.RecordHead, prefix uint32, w *Want) (from int64, ok bool) {
	off := uint64(prefix) + uint64(w.Off)
	number, in := off/format.FragmentBytes, off%format.FragmentBytes
	if off+uint64(w.N) > uint64(head.Length) || in+uint64(w.N) > format.FragmentBytes {
		return 0, false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := s.segment(w.Pos.Segment)
	if g == nil {
		return 0, false
	}
	parts := g.frags[w.Pos.Pos]
	if number >= uint64(len(parts)) {
		return 0, false
	}
	return int64(parts[number].data) + int64(in), true
}

// run is a part of a segment that is read at once, for all the needs in it.
type run struct {
	from, to int64
	needs    []need
}

// span is how many bytes a read of whole blocks takes.
func (r *run) span() int64 { return vfs.RoundUp(r.to) - r.first() }

func (r *run) first() int64 { return r.from &^ (format.BlockSize - 1) }

// runsOf joins needs that lie together. They are in the order of the log.
func runsOf(all []need) (runs []run) {
	for i := range all {
		n := &all[i]
		if last := len(runs) - 1; last >= 0 && runs[last].needs[0].segment == n.segment && n.from <= runs[last].to+runGap {
			longer := run{from: runs[last].from, to: max(runs[last].to, n.to)}
			if longer.span() <= runMost {
				from := i - len(runs[last].needs)
				longer.needs = all[from : i+1]
				runs[last] = longer
				continue
			}
		}
		runs = append(runs, run{from: n.from, to: n.to, needs: all[i : i+1]})
	}
	return runs
}

// readRuns reads runs, the caller's goroutine and a few others.
func (s *Store) readRuns(wants []Want, runs []run) {
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(len(runs)); i = next.Add(1) - 1 {
			s.readRun(wants, &runs[i])
		}
	}
	var others sync.WaitGroup
	if !s.opts.inline {
		for range min(runsAtOnce, len(runs)) - 1 {
			others.Go(work)
		}
	}
	work()
	others.Wait()
}

// readRun answers what a run holds; a want is in one run only, so that no other goroutine has it.
func (s *Store) readRun(wants []Want, r *run) {
	buf := <-runBuffers
	if buf == nil {
		buf = vfs.AlignedBuffer(runMost)
	}
	defer func() { runBuffers <- buf }()
	b := s.readBlocks(r, buf)
	for i := range r.needs {
		s.serve(&wants[r.needs[i].want], &r.needs[i], b, r.first())
	}
}

// readBlocks returns the bytes of a run from its first block on, fewer or none where they can not be read.
func (s *Store) readBlocks(r *run, buf []byte) []byte {
	g, end := s.readable(r.needs[0].segment)
	if g == nil {
		return nil
	}
	n := min(r.span(), end-r.first())
	if n <= 0 || n > int64(len(buf)) {
		return nil
	}
	f, err := s.handles.pin(g)
	if err != nil {
		return nil
	}
	defer s.handles.unpin(g)
	if got, err := f.ReadAt(buf[:n], r.first()); err != nil && err != io.EOF || int64(got) < n {
		return nil
	}
	return buf[:n]
}

// serve answers a want from bytes of its segment, which begin at first. A head that is not known is verified here, with
// everything that its checksum covers, or the want is read alone.
func (s *Store) serve(w *Want, n *need, b []byte, first int64) {
	w.state = wantAlone
	head, from := n.head, n.from
	if !n.known {
		at := int64(w.Pos.Pos) - first
		if at < 0 || at >= int64(len(b)) {
			return
		}
		var err error
		if head, _, err = format.ParseRecord(b[at:]); err != nil {
			return
		}
		prefix, pieces := head.Covered, false
		switch head.Kind {
		case format.RecordEntry:
			prefix = uint32(format.EntryBytesPos(head.Flags))
		case format.RecordFrame:
		case format.RecordFragment:
			f, _, err := format.ParseFragment(&head, b[at+format.RecordHeadSize:])
			if err != nil || f.Number != 0 || f.Of != format.RecordEntry {
				return
			}
			head, pieces = f.Joined(&head), true
			prefix = uint32(format.EntryBytesPos(head.Flags))
		default:
			return // nothing that is read
		}
		if !pieces && !inPiece(&head, prefix, w) {
			return
		}
		s.heads.put(w.Pos.Segment, w.Pos.Pos, head, prefix)
		if pieces {
			if w.Off > head.Covered {
				w.state = wantOpen // now that the head is known
			}
			return
		}
		from = int64(w.Pos.Pos) + format.RecordHeadSize + int64(prefix) + int64(w.Off)
	}
	switch from, to := from-first, from-first+int64(w.N); {
	case from >= 0 && to <= int64(len(b)):
		w.Data, w.Index, w.state = append(w.Data, b[from:to]...), head.Index, wantDone
	case !n.known && w.Off > smallRead && w.Off > head.Covered:
		w.state = wantOpen // now that the head is known
	}
}
