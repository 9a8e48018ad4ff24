package engine

import (
	"strconv"
	"unsafe"

	"queen/engine/format"
	"queen/engine/seal"
	"queen/engine/stats"
)

// maxFrameBytes cuts a push to one partition into several frames at message borders, so that a
// frame stays small against an entry. The pieces follow each other in one submission.
const maxFrameBytes = 16 << 20

// pushEncoder turns Appends into the commands of one submission, and their verdicts into results.
// It is used by one call and not kept.
type pushEncoder struct {
	n      *Node
	caller Caller
	ops    []Op
	sub    *submission
	frames []pushFrame
	msgs   []format.FrameMessage
	frame  []byte
	hashes []byte
	named  []int // numbers in ids of the hashes
	bitmap []byte
	heads  []byte

	ids      pushIDs
	evidence idEvidence
	// The queue looked at last, and what its frames are sealed with (nil is nothing).
	lookedAt string
	looked   bool
	ring     *seal.Ring
	// firsts are the ids of a transaction so far, which stores each once (S-txn-11); nil for other calls.
	firsts map[firstKey]msgPlace
	// dry encodes to see what would stand where, for a call that took place before.
	dry bool
}

// firstKey is an id in its partition, msgPlace the message that has it: number at of op.
type firstKey struct{ queue, partition, id string }

type msgPlace struct{ op, at int }

// emptied is a new encoder with p's memory.
func (p *pushEncoder) emptied() pushEncoder {
	most := len(p.msgs) // those of a frame that was refused
	for i := range p.frames {
		most = max(most, p.frames[i].to-p.frames[i].from)
	}
	clear(p.msgs[:min(most, cap(p.msgs))]) // they hold the caller's bytes
	clear(p.frames)
	return pushEncoder{
		frames: p.frames[:0], msgs: p.msgs[:0], frame: p.frame[:0], hashes: p.hashes[:0], named: p.named[:0],
		bitmap: p.bitmap[:0], heads: p.heads[:0],
		ids: pushIDs{first: p.ids.first[:0], hashes: p.ids.hashes[:0], hits: p.ids.hits[:0],
			lookup: p.ids.lookup.Emptied()},
		evidence: idEvidence{keys: p.evidence.keys[:0], found: p.evidence.found[:0]},
	}
}

// pushFrame says which messages of which op a frame holds. Repeats of an id inside the frame are judged
// by apply, whatever the window; those of a message in an earlier frame of the op are left out of the
// frame (S-dup-4). A frame of which nothing is left has no command.
type pushFrame struct {
	op, from, to int
	command      int // -1 for none
	left         []leftOut
}

// leftOut is message number at of an op, which repeats another one.
type leftOut struct {
	at int
	of msgPlace
}

// add encodes one Append. An error refuses this op alone, nothing of it is encoded.
func (p *pushEncoder) add(op int, a *Append) *Error {
	if err := checkAppend(a); err != nil {
		return err
	}
	if !p.looked || p.lookedAt != a.Queue {
		ring, err := p.sealFor(a.Queue)
		if p.looked = err == nil; err != nil {
			return err
		}
		p.lookedAt, p.ring = a.Queue, ring
	}
	p.lookAhead(op)
	firsts := p.firsts // the first message with an id, in a transaction or when the push is cut
	for from := 0; from < len(a.Messages); {
		to, bytes := from, 0
		for to < len(a.Messages) && (to == from || bytes+len(a.Messages[to].Payload) <= maxFrameBytes) {
			bytes += len(a.Messages[to].Payload)
			to++
		}
		if to < len(a.Messages) && firsts == nil {
			firsts = map[firstKey]msgPlace{}
		}
		if err := p.addFrame(op, a, from, to, firsts); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// sealFor is what the frames of a queue are sealed with.
func (p *pushEncoder) sealFor(queue string) (*seal.Ring, *Error) {
	if p.dry {
		return nil, nil
	}
	return p.n.sealFor(p.caller.Tenant, queue)
}

func (p *pushEncoder) addFrame(op int, a *Append, from, to int, firsts map[firstKey]msgPlace) *Error {
	p.msgs, p.hashes, p.heads, p.named = p.msgs[:0], p.hashes[:0], p.heads[:0], p.named[:0]
	f := pushFrame{op: op, from: from, to: to, command: -1}
	for i := from; i < to; i++ {
		m := &a.Messages[i]
		id := -1
		if m.TransactionID != "" {
			id = p.ids.take()
		}
		if firsts != nil && id >= 0 {
			key := firstKey{a.Queue, a.Partition, m.TransactionID}
			first, again := firsts[key]
			if again && (first.op != op || first.at < from) {
				f.left = append(f.left, leftOut{at: i, of: first})
				continue
			}
			if !again {
				firsts[key] = msgPlace{op, i}
			}
		}
		p.addMessage(m, id)
	}
	if len(p.msgs) > 0 {
		f.command = p.sub.buf.Count
		if err := p.addCommand(a); err != nil {
			return err
		}
	}
	p.frames = append(p.frames, f)
	return nil
}

// addMessage takes a message into the frame that is forming; id is the number of its id, -1 for none.
func (p *pushEncoder) addMessage(m *Message, id int) {
	fm := format.FrameMessage{
		TransactionID: viewBytes(m.TransactionID), HasID: id >= 0, TraceID: m.TraceID,
		ProducerSub: viewBytes(p.caller.Subject), ContentType: viewBytes(m.ContentType), Payload: m.Payload,
	}
	if len(m.Headers) > 0 {
		start := len(p.heads)
		p.heads = format.AppendHeaders(p.heads, formatHeaders(m.Headers))
		fm.Headers = p.heads[start:len(p.heads):len(p.heads)]
	}
	if id >= 0 {
		p.hashes, p.named = append(p.hashes, p.ids.hashes[id][:]...), append(p.named, id)
	}
	p.msgs = append(p.msgs, fm)
}

// addCommand encodes the frame of the messages taken in.
func (p *pushEncoder) addCommand(a *Append) (err *Error) {
	p.frame = format.EncodeFrame(p.frame[:0], p.msgs, format.FrameOptions{Compress: true})
	owner := seal.Owner{Tenant: p.caller.Tenant, Queue: viewBytes(a.Queue), Partition: viewBytes(a.Partition)}
	if p.frame, err = p.n.seal(p.ring, p.frame, owner); err != nil {
		return err
	}
	cmd := format.Append{
		Tenant: p.caller.Tenant, Queue: viewBytes(a.Queue), Partition: viewBytes(a.Partition),
		Frame: format.FrameNative, Count: uint32(len(p.msgs)), Hashes: p.hashes,
	}
	switch {
	case len(p.named) == 0:
		cmd.IDs = format.IDsNone
	case len(p.named) == len(p.msgs):
		cmd.IDs = format.IDsAll
	default:
		cmd.IDs = format.IDsSome
		p.bitmap = idBitmap(p.bitmap[:0], p.msgs)
		cmd.Bitmap = p.bitmap
	}
	if len(p.named) > 0 {
		p.ids.attach(&p.evidence, &cmd, p.named)
	}
	p.sub.buf.AddAppend(&cmd, p.frame)
	p.sub.addQueue(p.caller.Tenant, a.Queue)
	return nil
}

func idBitmap(dst []byte, msgs []format.FrameMessage) []byte {
	for range (len(msgs) + 7) / 8 {
		dst = append(dst, 0)
	}
	for i := range msgs {
		if msgs[i].HasID {
			dst[i/8] |= 1 << (i % 8)
		}
	}
	return dst
}

func checkAppend(a *Append) *Error {
	if err := checkNames(a.Queue, a.Partition, "partition"); err != nil {
		return err
	}
	if len(a.Messages) > format.MaxOrdinals {
		return errBad("messages", "4194304", "too many messages for one partition in one call")
	}
	total := 0
	for i := range a.Messages {
		m := &a.Messages[i]
		if len(m.TransactionID) > format.MaxTransactionID {
			return errBad("transactionId", "65535 bytes", "transactionId is too long")
		}
		total += len(m.Payload) + len(m.TransactionID)
	}
	if total > entryByteLimit {
		return &Error{Code: CodeTooLarge, Field: "payload", Limit: "96 MiB per partition and call",
			Message: "the messages of one partition are larger than an entry may be"}
	}
	return nil
}

// results fills one Result per op from the verdicts; out[op].Messages has one element per message.
func (p *pushEncoder) results(out []Result) {
	items := p.sub.items()
	fl := p.sub.flight
	total := 0
	for i := range p.frames {
		total += p.frames[i].to - p.frames[i].from
	}
	all := make([]MessageResult, total)
	var sum pushSum
	var t tally
	at := 0
	for i := range p.frames {
		f := &p.frames[i]
		part := all[at : at+f.to-f.from]
		at += len(part)
		if f.command >= 0 {
			p.frameResults(fl, &items[f.command], f, part)
		}
		r := &out[f.op]
		for _, l := range f.left {
			part[l.at-f.from] = repeated(out[l.of.op].Messages[l.of.at])
		}
		was := sum
		sum.count(part, p.ops[f.op].(*Append).Messages[f.from:f.to])
		if !p.dry && f.command >= 0 && errOfCode(items[f.command].Code) == nil {
			t.pushed(p, fl.results.Appends[items[f.command].At].Queue, sum.queued-was.queued, sum.bytes-was.bytes)
		}
		if r.Messages == nil {
			r.Messages = part[:len(part):len(part)]
		} else {
			r.Messages = append(r.Messages, part...)
		}
	}
	if !p.dry {
		sum.addTo(&p.n.counters)
		t.done(p.n, p.caller.Tenant, stats.PushRequests)
	}
}

// repeated answers a message that the edge found to repeat another one of the call.
func repeated(first MessageResult) MessageResult {
	if first.Status == Queued {
		first.Status = Duplicate
	}
	return first
}

// pushSum counts what became of messages; it reaches the node's counters once a call, since producers share them.
type pushSum struct{ queued, bytes, dups, refused uint64 }

func (s *pushSum) count(part []MessageResult, messages []Message) {
	for k := range part {
		switch part[k].Status {
		case Queued:
			s.queued++
			s.bytes += uint64(len(messages[k].Payload))
		case Duplicate:
			s.dups++
		default:
			s.refused++
		}
	}
}

func (s *pushSum) addTo(c *counters) {
	c.pushed.Add(s.queued)
	c.pushedBytes.Add(s.bytes)
	c.duplicates.Add(s.dups)
	c.refused.Add(s.refused)
}

func (p *pushEncoder) frameResults(fl *flight, it *format.Result, f *pushFrame, part []MessageResult) {
	if e := errOfCode(it.Code); e != nil {
		if it.Code == format.CodeEncryption {
			e = p.n.errUnsealed()
		}
		for k := range part {
			part[k] = MessageResult{Status: Refused, Err: e}
		}
		return
	}
	ar := &fl.results.Appends[it.At]
	id := &p.n.identity
	dups, left := ar.Dups, f.left
	offset := ar.Base
	n := uint32(0) // number in the frame
	for k := range part {
		if len(left) > 0 && left[0].at == f.from+k {
			left = left[1:]
			continue
		}
		n++
		if len(dups) > 0 && dups[0].At == n-1 {
			part[k] = p.n.duplicate(ar, &dups[0])
			dups = dups[1:]
			continue
		}
		place := format.Place{Index: fl.index, Ordinal: it.First + format.Ordinal(n-1)}
		part[k] = MessageResult{Status: Queued, Offset: offset, ID: id.messageID(fl.header.W, place)}
		offset++
	}
}

// duplicate answers a message that apply did not store: it repeats another one, or there is no room.
func (n *Node) duplicate(ar *format.AppendResult, d *format.DupResult) MessageResult {
	switch {
	case d.Full:
		return MessageResult{Status: Refused, Err: n.errFull(ar.Queue)}
	case d.Place.IsZero():
		return MessageResult{Status: Duplicate, Offset: d.Offset}
	}
	return MessageResult{Status: Duplicate, Offset: d.Offset, ID: n.identity.messageID(d.W, d.Place)}
}

// errFull refuses a message for which its partition has no room.
func (n *Node) errFull(id format.QueueID) *Error {
	n.state.RLock()
	q, _ := n.state.m.QueueByID(id)
	n.state.RUnlock()
	return &Error{Code: CodeTooLarge, Field: "maxSize", Limit: strconv.FormatInt(q.Options.MaxSize, 10) + " messages per partition",
		Message: "the partition retains as many messages as the queue's maxSize allows"}
}

// addQueue notes a queue the submission appends to, once.
func (s *submission) addQueue(t format.Tenant, queue string) {
	if n := len(s.queues); n > 0 && s.queues[n-1].queue == queue && s.queues[n-1].tenant == t {
		return
	}
	for i := range s.queues {
		if s.queues[i].queue == queue && s.queues[i].tenant == t {
			return
		}
	}
	s.queues = append(s.queues, queueName{t, queue})
}

// viewBytes views a string's bytes for an encoder that only reads them.
func viewBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// viewString views bytes that nobody changes any more as a string.
func viewString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func formatHeaders(hs []Header) []format.Header {
	out := make([]format.Header, len(hs))
	for i, h := range hs {
		out[i] = format.Header{Key: viewBytes(h.Name), Value: h.Value}
	}
	return out
}
