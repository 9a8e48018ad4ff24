package engine

import (
	"errors"
	"fmt"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/logstore"
	"queen/engine/logstore/rows"
)

// frameReader reads stored frames and walks their messages. It is used by one goroutine.
type frameReader struct {
	n *Node
	// group is the consumer group for which it reads: messages for another one are left out. "" leaves none out.
	group string
	// passed is set when a message was left out because it is another group's.
	passed  bool
	msg     format.FrameMessage
	headers format.Header
	rec     Record // handed to a callback, valid until it returns
	found   []rows.Row
	scratch []byte
	room    []byte // what is left of the memory that frames are read into
	taken   int    // how much was taken last
}

// Memory for frames, most of which have some hundred bytes, is taken in pieces of roomLeast at first and roomMost later.
const (
	roomLeast = 2 << 10
	roomMost  = 64 << 10
)

// frame reads the row's frame into memory that nobody changes afterwards.
func (f *frameReader) frame(r *rows.Row) ([]byte, format.Index, error) {
	return f.n.readRow(r, r.Len, f.memory(int(r.Len)))
}

// memory is where a frame of that size is appended to.
func (f *frameReader) memory(size int) []byte {
	if size > roomMost/4 {
		return nil
	}
	if len(f.room) < size {
		f.taken = min(max(2*f.taken, roomLeast, size), roomMost)
		f.room = make([]byte, f.taken)
	}
	dst := f.room[:0:size]
	f.room = f.room[size:]
	return dst
}

// walk calls fn for every stored message of the row's frame with an offset of [from, to), in order,
// until fn returns false. Record's slices alias fresh memory that nobody changes.
func (f *frameReader) walk(r *rows.Row, from, to format.Offset, fn func(rec *Record) bool) error {
	if r.Flags&rows.Control != 0 {
		return nil // for Kafka's clients only
	}
	raw, index, err := f.frame(r)
	if err != nil {
		return fmt.Errorf("engine: read frame of partition %s at offset %d: %w", r.Partition, r.Base, err)
	}
	return f.walkFrame(raw, index, r, from, to, fn)
}

// walkFrame is walk for a frame that was read.
func (f *frameReader) walkFrame(raw []byte, index format.Index, r *rows.Row, from, to format.Offset, fn func(rec *Record) bool) error {
	f.scratch = nil // fresh for every frame: records alias it
	head, body, err := f.n.openStored(raw, r.Partition, &f.scratch)
	if err != nil {
		return fmt.Errorf("engine: frame of partition %s at offset %d, segment %d pos %d: %w",
			r.Partition, r.Base, r.Segment, r.Pos, err)
	}
	if body == nil {
		return nil // the partition is gone
	}
	if passes, err := f.passes(&head, body); err != nil {
		return fmt.Errorf("engine: frame of partition %s at offset %d: %w", r.Partition, r.Base, err)
	} else if passes {
		f.passed = true
		return nil
	}
	if head.Kind == format.FrameKafka {
		if r.Flags&rows.Transactional != 0 && f.undelivered(body, r) {
			return nil
		}
		return f.walkBatch(body, format.Place{Index: index, Ordinal: head.FirstOrdinal}, r, from, to, fn)
	}
	it := head.Messages(body)
	offset := r.Base
	for i := uint32(0); it.Next(&f.msg); i++ {
		if r.IsRefused(i) {
			continue
		}
		if offset >= to {
			return nil
		}
		if offset >= from {
			f.record(&f.rec, r, format.Place{Index: index, Ordinal: head.FirstOrdinal + format.Ordinal(i)}, offset)
			if !fn(&f.rec) {
				return nil
			}
		}
		offset++
	}
	return it.Err()
}

func (f *frameReader) record(rec *Record, r *rows.Row, place format.Place, offset format.Offset) {
	m := &f.msg
	*rec = Record{
		ID:     f.n.identity.messageID(r.W, place),
		Offset: offset, TraceID: m.TraceID, ProducerSub: viewString(m.ProducerSub),
		ContentType: viewString(m.ContentType), Payload: m.Payload, CreatedAt: r.W,
	}
	if !m.ExplicitID.IsZero() {
		rec.ID = m.ExplicitID // told when its timer was scheduled
	}
	if m.HasID {
		rec.TransactionID, rec.HasCallerID = viewString(m.TransactionID), true
	} else {
		rec.TransactionID = rec.ID.String()
	}
	if len(m.Headers) > 0 {
		it := format.ReadHeaders(m.Headers)
		for it.Next(&f.headers) {
			rec.Headers = append(rec.Headers, Header{Name: viewString(f.headers.Key), Value: f.headers.Value})
		}
	}
}

// readRow appends the first size bytes of the row's frame to dst, and tells the index of its entry. A frame
// that moved between the look-up and the read is looked up again: rows lead to the copy before what it was
// copied from goes. The row then says where it is.
func (n *Node) readRow(r *rows.Row, size uint32, dst []byte) ([]byte, format.Index, error) {
	for tries := 0; ; tries++ {
		invariants.Failpoint(failRowFound)
		b, index, err := n.seq.Log().ReadIndexed(logstore.EntryPos{Segment: r.Segment, Pos: r.Pos}, r.Off, size, dst)
		if !errors.Is(err, logstore.ErrReclaimed) || tries == maxOvertaken {
			return b, index, err
		}
		row, ok, lookup := n.rows.Again(r)
		if lookup != nil || !ok || row.Segment == r.Segment {
			return b, index, errors.Join(err, lookup)
		}
		if size == r.Len { // all of it, of which compaction may have left less
			size = row.Len
		}
		size = min(size, row.Len)
		r.Segment, r.Pos, r.Off, r.Len, r.Flags = row.Segment, row.Pos, row.Off, row.Len, row.Flags
	}
}

var failRowFound = invariants.Register("engine.read.row-found")

// maxOvertaken bounds how often one read is overtaken by a relocation: each takes a pass.
const maxOvertaken = 8

// place finds where the row's frame stands in the log: rows from files leave it to the record.
func (n *Node) place(r *rows.Row) (format.Place, error) {
	if r.Index != 0 {
		return format.Place{Index: r.Index, Ordinal: r.First}, nil
	}
	var buf [format.FrameHeadSize]byte
	b, index, err := n.readRow(r, uint32(len(buf)), buf[:0])
	if err != nil {
		return format.Place{}, fmt.Errorf("engine: place of partition %s, offset %d: %w", r.Partition, r.Base, err)
	}
	head, err := format.ParseFrameHead(b)
	if err != nil {
		return format.Place{}, fmt.Errorf("engine: place of partition %s, offset %d: %w", r.Partition, r.Base, err)
	}
	return format.Place{Index: index, Ordinal: head.FirstOrdinal}, nil
}

// span is what a read of one partition may return: offsets [From, To), nothing created before
// Cutoff, and the newest row from which look-ups start.
type span struct {
	pid      format.PartitionID
	from, to format.Offset
	newest   uint64
	cutoff   format.Wall // W below which frames are gone
	ttl      int64       // message time to live, microseconds; 0 is none
	now      format.Wall
}

func (s *span) gone(w format.Wall) bool {
	return w < s.cutoff || s.ttl > 0 && s.now >= w+format.Wall(s.ttl)
}

// read walks the span's deliverable messages until budget bytes of payload were taken or fn returns
// false. The first message is taken whatever its size, unless the answer has others already (taken).
// It returns the offset after the last message looked at: to when the span was read to its end.
func (f *frameReader) read(s span, budget int64, taken bool, fn func(rec *Record) bool) (format.Offset, error) {
	const step = 256 // rows looked up at a time
	next := s.from
	for next < s.to {
		found, err := f.n.rows.AppendRange(f.found[:0], s.pid, next, min(s.to, next+step), s.newest)
		if err != nil {
			return next, err
		}
		f.found = found
		for i := range found {
			r := &found[i]
			if s.gone(r.W) {
				continue
			}
			full := false
			err := f.walk(r, next, s.to, func(rec *Record) bool {
				if taken && int64(len(rec.Payload)) > budget {
					full = true
					return false
				}
				budget -= int64(len(rec.Payload))
				taken = true
				next = rec.Offset + 1
				full = !fn(rec)
				return !full
			})
			if err != nil || full {
				return next, err
			}
			next = max(next, min(r.End(), s.to))
		}
		if n := len(found); n > 0 {
			next = max(next, min(found[n-1].End(), s.to))
		} else if next, err = f.n.nextRow(s.pid, next+step, s.to, s.newest); err != nil {
			return next, err
		}
	}
	return next, nil
}
