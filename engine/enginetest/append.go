package enginetest

import (
	"bytes"
	"slices"

	"queen/engine"
	"queen/engine/format"
)

// maxCommand bounds the messages of one partition in one call (S-push-13).
const maxCommand = 96 << 20

func fail(code engine.ErrorCode, message string) *engine.Error {
	return &engine.Error{Code: code, Message: message}
}

// checkNames holds a call to the name budget (S-id-6).
func checkNames(queue, other string) *engine.Error {
	if format.TenantNameBytes+len(queue)+len(other) > format.NameBudget {
		return fail(engine.CodeNameTooLong, "tenant, queue and the longer of partition and group exceed 447 bytes")
	}
	return nil
}

// append stores the messages of one Append in order (S-push-5).
func (s *state) append(by engine.Caller, op *engine.Append) engine.Result {
	var res engine.Result
	q := s.queue(by.Tenant, op.Queue)
	if e := refuseAppend(q, op); e != nil {
		if e.Code != engine.CodeEncryption {
			res.Err = e
		}
		for range op.Messages {
			res.Messages = append(res.Messages, engine.MessageResult{Status: engine.Refused, Err: e})
			s.stats.Refused++
		}
		return res
	}
	if len(op.Messages) == 0 {
		return res
	}
	if q == nil {
		q = s.makeQueue(by.Tenant, op.Queue, false)
	}
	p := q.part(op.Partition)
	if p == nil {
		p = s.makePart(q, op.Partition)
	}
	s.reveal(p)
	seen := map[string]format.Offset{} // an id repeated here is stored once whatever the window (S-dup-4)
	frame := s.tick()
	for i := range op.Messages {
		res.Messages = append(res.Messages, s.appendOne(p, &op.Messages[i], by.Subject, seen, frame))
	}
	s.refresh(q, true)
	s.note(p)
	return res
}

func refuseAppend(q *queue, op *engine.Append) *engine.Error {
	size := 0
	for i := range op.Messages {
		size += len(op.Messages[i].Payload)
		if len(op.Messages[i].TransactionID) > format.MaxTransactionID {
			return &engine.Error{Code: engine.CodeBadRequest, Field: "transactionId", Limit: "65535 bytes",
				Message: "a transactionId is too long"}
		}
	}
	if e := checkNames(op.Queue, op.Partition); e != nil {
		return e
	}
	switch {
	case size > maxCommand:
		return fail(engine.CodeTooLarge, "the messages of one partition exceed 96 MiB")
	case q != nil && q.opts.EncryptionEnabled:
		return fail(engine.CodeEncryption, "the queue wants encryption and no key is usable")
	}
	return nil
}

// appendOne judges one message: duplicate of this call, duplicate inside the window, or stored.
func (s *state) appendOne(p *part, m *engine.Message, subject string, seen map[string]format.Offset, frame uint64) engine.MessageResult {
	if m.TransactionID == "" {
		return s.store(p, m, subject, frame)
	}
	o, dup := seen[m.TransactionID]
	if !dup {
		o, dup = s.original(p, m.TransactionID)
	}
	if dup {
		seen[m.TransactionID] = o
		return s.duplicate(p, o)
	}
	res := s.store(p, m, subject, frame)
	if res.Err == nil {
		seen[m.TransactionID] = res.Offset
	}
	return res
}

// full says that maxSize lets nothing more into a partition; it acts only where it was configured.
func (p *part) full() bool {
	o := &p.q.opts
	return o.Set&format.OptMaxSize != 0 && o.MaxSize > 0 && int64(p.end()-p.start) >= o.MaxSize
}

// original is the newest message with this id whose age is inside the queue's window (S-dup-2).
func (s *state) original(p *part, id string) (format.Offset, bool) {
	all := p.byID[id]
	if len(all) == 0 {
		return 0, false
	}
	o := all[len(all)-1]
	at := p.msgs[o].rec.CreatedAt
	return o, at >= p.q.dedupFloor && s.w-at < seconds(p.q.opts.DedupWindowSeconds)
}

func (s *state) duplicate(p *part, o format.Offset) engine.MessageResult {
	s.stats.Duplicates++
	return engine.MessageResult{Status: engine.Duplicate, ID: p.msgs[o].rec.ID, Offset: o}
}

func (s *state) store(p *part, m *engine.Message, subject string, frame uint64) engine.MessageResult {
	if p.full() {
		s.stats.Refused++
		return engine.MessageResult{Status: engine.Refused, Err: &engine.Error{Code: engine.CodeTooLarge, Field: "maxSize",
			Message: "the partition holds as many messages as maxSize allows"}}
	}
	o := p.end()
	rec := engine.Record{ID: s.mint(), Offset: o, TransactionID: m.TransactionID,
		HasCallerID: m.TransactionID != "", TraceID: m.TraceID, ProducerSub: subject,
		ContentType: m.ContentType, Headers: cloneHeaders(m.Headers), Payload: bytes.Clone(m.Payload),
		CreatedAt: s.w}
	if rec.HasCallerID {
		p.byID[rec.TransactionID] = append(p.byID[rec.TransactionID], o)
	} else {
		rec.TransactionID = rec.ID.String()
	}
	p.msgs = append(p.msgs, message{rec: rec, seq: s.tick(), frame: frame})
	p.lastWrite = s.w
	s.stats.Pushed++
	s.stats.PushedBytes += uint64(len(rec.Payload))
	return engine.MessageResult{Status: engine.Queued, ID: rec.ID, Offset: o}
}

func cloneHeaders(hs []engine.Header) []engine.Header {
	hs = slices.Clone(hs)
	for i := range hs {
		hs[i].Value = bytes.Clone(hs[i].Value)
	}
	return hs
}

func cloneRecord(r engine.Record) engine.Record {
	r.Headers, r.Payload = cloneHeaders(r.Headers), bytes.Clone(r.Payload)
	return r
}
