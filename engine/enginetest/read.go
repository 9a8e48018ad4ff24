package enginetest

import (
	"context"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// Read answers by offset and moves nothing (S-fetch-1 to 5). Options that hide messages from pops
// hide nothing here (S-fetch-10).
func (m *Model) Read(ctx context.Context, c engine.Caller, r engine.ReadRequest) (*engine.ReadResult, error) {
	if len(r.At) > maxPositions {
		return nil, fail(engine.CodeBadRequest, "at most 1024 positions")
	}
	var timeout <-chan struct{}
	if r.Wait > 0 {
		t := m.opts.Clock.NewTimer(min(r.Wait, time.Minute))
		defer t.Stop()
		timeout = t.C()
	}
	for {
		m.mu.Lock()
		if m.mu.closed {
			m.mu.Unlock()
			return nil, errClosed()
		}
		res, bytes, done := m.stepLocked().read(c.Tenant, r.At)
		bump := m.mu.bump
		m.mu.Unlock()
		if done || r.Wait <= 0 || bytes >= r.MinBytes {
			return res, nil
		}
		select {
		case <-bump:
		case <-timeout:
			return res, nil
		case <-ctx.Done():
			return res, nil
		}
	}
}

// read answers all positions; done says that one of them is an error, which no waiting changes.
func (s *state) read(t format.Tenant, at []engine.Position) (res *engine.ReadResult, bytes int, done bool) {
	res = &engine.ReadResult{}
	for _, pos := range at {
		part := s.readOne(t, pos)
		done = done || part.Err != nil
		for i := range part.Records {
			bytes += len(part.Records[i].Payload)
		}
		res.Parts = append(res.Parts, part)
	}
	return res, bytes, done
}

func (s *state) readOne(t format.Tenant, pos engine.Position) (res engine.PartitionRead) {
	q := s.queue(t, pos.Queue)
	if q == nil {
		res.Err = fail(engine.CodeUnknownQueue, "no such queue")
		return res
	}
	p := q.part(pos.Partition)
	if p == nil {
		if pos.Offset > 0 {
			res.Err = fail(engine.CodeOffsetOutOfRange, "the partition was never written")
		}
		return res
	}
	res.Start, res.End = p.start, p.end()
	if pos.Offset < res.Start || pos.Offset > res.End {
		res.Err = fail(engine.CodeOffsetOutOfRange, "the offset is not retained or not yet written")
		return res
	}
	left := pos.MaxBytes
	if left <= 0 {
		left = defaultReadBytes
	}
	left = min(left, maxReadBytes)
	for o := pos.Offset; o < res.End; o++ {
		size := len(p.msgs[o].rec.Payload)
		if size > left && len(res.Records) > 0 {
			break
		}
		left -= size
		res.Records = append(res.Records, cloneRecord(p.msgs[o].rec))
	}
	return res
}

// Offsets answers where things are (S-fetch-7).
func (m *Model) Offsets(_ context.Context, c engine.Caller, qs []engine.OffsetQuery) ([]engine.OffsetAnswer, error) {
	if len(qs) > maxPositions {
		return nil, fail(engine.CodeBadRequest, "at most 1024 queries")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.closed {
		return nil, errClosed()
	}
	s := m.stepLocked()
	out := make([]engine.OffsetAnswer, len(qs))
	for i, q := range qs {
		out[i] = s.offset(c.Tenant, q)
	}
	return out, nil
}

func (s *state) offset(t format.Tenant, oq engine.OffsetQuery) (a engine.OffsetAnswer) {
	q := s.queue(t, oq.Queue)
	if q == nil {
		a.Err = fail(engine.CodeUnknownQueue, "no such queue")
		return a
	}
	p := q.part(oq.Partition)
	if p == nil {
		return a
	}
	a.Start, a.End = p.start, p.end()
	var o format.Offset
	switch oq.Kind {
	case engine.Earliest:
		o = p.start
		a.Found = true
	case engine.Latest:
		o = p.end()
		a.Found = true
	case engine.AtTime:
		o = p.firstAt(oq.Time)
		a.Found = o < p.end()
	case engine.OfID:
		o, a.Found = p.resolve(&engine.Ack{TransactionID: oq.ID}, p.start, nil)
		a.Found = a.Found && o >= p.start
	default:
		a.Err = fail(engine.CodeBadRequest, "unknown kind of query")
		return a
	}
	if !a.Found {
		return a
	}
	a.Offset = o
	if o < p.end() {
		a.CreatedAt = p.msgs[o].rec.CreatedAt
	}
	return a
}
