package engine

import (
	"unsafe"

	"queen/engine/format"
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
	bitmap []byte
	heads  []byte

	evidence idEvidence
}

// pushFrame says which messages of which op a frame holds, and which of them are refused repeats of
// an earlier message of the same frame: apply judges those, whatever the window (S-dup-4).
type pushFrame struct {
	op, from, to int
	command      int
}

// add encodes one Append. An error refuses this op alone, nothing of it is encoded.
func (p *pushEncoder) add(op int, a *Append) *Error {
	if err := checkAppend(a); err != nil {
		return err
	}
	if p.n.encrypted(p.caller.Tenant, a.Queue) {
		return errOfCode(format.CodeEncryption)
	}
	for from := 0; from < len(a.Messages); {
		to, bytes := from, 0
		for to < len(a.Messages) && (to == from || bytes+len(a.Messages[to].Payload) <= maxFrameBytes) {
			bytes += len(a.Messages[to].Payload)
			to++
		}
		p.addFrame(op, a, from, to)
		from = to
	}
	return nil
}

func (p *pushEncoder) addFrame(op int, a *Append, from, to int) {
	p.msgs, p.hashes, p.heads = p.msgs[:0], p.hashes[:0], p.heads[:0]
	ids := 0
	key := p.n.identity.hashKey
	for i := from; i < to; i++ {
		m := &a.Messages[i]
		fm := format.FrameMessage{
			TransactionID: viewBytes(m.TransactionID), HasID: m.TransactionID != "", TraceID: m.TraceID,
			ProducerSub: viewBytes(p.caller.Subject), ContentType: viewBytes(m.ContentType), Payload: m.Payload,
		}
		if len(m.Headers) > 0 {
			start := len(p.heads)
			p.heads = format.AppendHeaders(p.heads, formatHeaders(m.Headers))
			fm.Headers = p.heads[start:len(p.heads):len(p.heads)]
		}
		if fm.HasID {
			ids++
			h := format.HashID(key, fm.TransactionID)
			p.hashes = append(p.hashes, h[:]...)
		}
		p.msgs = append(p.msgs, fm)
	}
	p.frame = format.EncodeFrame(p.frame[:0], p.msgs, format.FrameOptions{Compress: true})
	cmd := format.Append{
		Tenant: p.caller.Tenant, Queue: viewBytes(a.Queue), Partition: viewBytes(a.Partition),
		Frame: format.FrameNative, Count: uint32(to - from), Hashes: p.hashes,
	}
	switch {
	case ids == 0:
		cmd.IDs = format.IDsNone
	case ids == to-from:
		cmd.IDs = format.IDsAll
	default:
		cmd.IDs = format.IDsSome
		p.bitmap = idBitmap(p.bitmap[:0], p.msgs)
		cmd.Bitmap = p.bitmap
	}
	if ids > 0 {
		p.evidence.attach(p.n, &cmd)
	}
	p.frames = append(p.frames, pushFrame{op: op, from: from, to: to, command: p.sub.buf.Count})
	p.sub.buf.AddAppend(&cmd, p.frame)
	p.sub.addQueue(p.caller.Tenant, a.Queue)
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
	at := 0
	for i := range p.frames {
		f := &p.frames[i]
		it := &items[f.command]
		part := all[at : at+f.to-f.from]
		at += len(part)
		p.frameResults(fl, it, part)
		p.count(part, f)
		if r := &out[f.op]; r.Messages == nil {
			r.Messages = part[:len(part):len(part)]
		} else {
			r.Messages = append(r.Messages, part...)
		}
	}
}

// count feeds the node's counters with what became of a frame's messages.
func (p *pushEncoder) count(part []MessageResult, f *pushFrame) {
	var queued, bytes, dups, refused uint64
	messages := p.ops[f.op].(*Append).Messages[f.from:f.to]
	for k := range part {
		switch part[k].Status {
		case Queued:
			queued++
			bytes += uint64(len(messages[k].Payload))
		case Duplicate:
			dups++
		default:
			refused++
		}
	}
	c := &p.n.counters
	c.pushed.Add(queued)
	c.pushedBytes.Add(bytes)
	c.duplicates.Add(dups)
	c.refused.Add(refused)
}

func (p *pushEncoder) frameResults(fl *flight, it *format.Result, part []MessageResult) {
	if e := errOfCode(it.Code); e != nil {
		for k := range part {
			part[k] = MessageResult{Status: Refused, Err: e}
		}
		return
	}
	ar := &fl.results.Appends[it.At]
	id := &p.n.identity
	dups := ar.Dups
	offset := ar.Base
	for k := range part {
		if len(dups) > 0 && dups[0].At == uint32(k) {
			d := &dups[0]
			dups = dups[1:]
			part[k] = MessageResult{Status: Duplicate, Offset: d.Offset}
			if !d.Place.IsZero() {
				part[k].ID = id.messageID(d.W, d.Place)
			}
			continue
		}
		place := format.Place{Index: fl.index, Ordinal: it.First + format.Ordinal(k)}
		part[k] = MessageResult{Status: Queued, Offset: offset, ID: id.messageID(fl.header.W, place)}
		offset++
	}
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
