package engine

import (
	"context"

	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/machine"
)

// Fetch implements Records.
func (r recordsDoor) Fetch(ctx context.Context, c Caller, at []FetchAt, maxBytes int) ([]Fetched, error) {
	if len(at) > maxRecordPositions {
		return nil, errPositions()
	}
	if r.n.closing() {
		return nil, errClosed()
	}
	if maxBytes <= 0 {
		maxBytes = defaultReadBytes
	}
	out := make([]Fetched, len(at))
	f := newFetching(r.n, maxBytes)
	for first := 0; first < len(at); first += fetchTogether {
		f.spans = f.spans[:0]
		for i := first; i < min(first+fetchTogether, len(at)); i++ {
			if i%64 == 0 && ctx.Err() != nil {
				return nil, errContext(ctx, OutcomeNone)
			}
			f.one(ctx, c, &at[i], &out[i])
		}
		if err := f.rounds(ctx); err != nil {
			return nil, err
		}
		f.finish()
	}
	return out, nil
}

// fetching is one Fetch under way. What the positions may have is listed first, then read, all of it at once, and then put
// into the answers (record_rounds.go).
type fetching struct {
	n      *Node
	reader frameReader
	left   int // bytes of the call
	count  int // frames that are listed or returned
	epochs machine.Epochs
	queue  machine.Queue // looked at last
	caught bool
	late   *Error // this node could not catch up

	spans  []fetchSpan
	listed []listedFrame
	wants  []logstore.Want
}

func newFetching(n *Node, bytes int) *fetching {
	return &fetching{n: n, reader: frameReader{n: n}, left: bytes, epochs: n.epochs()}
}

// behind reports that the node may not know yet what the caller was told by another one, after it has caught up: then it is
// to look again. It catches up once in a call.
func (f *fetching) behind(ctx context.Context, code format.Code, at *FetchAt, part *partView) bool {
	if f.n.cluster == nil || f.caught || code == format.CodeOK && at.Offset <= part.next {
		return false
	}
	f.caught, f.queue = true, machine.Queue{}
	f.late = f.n.catchUp(ctx)
	return f.late == nil
}

// one answers one position but for its frames.
func (f *fetching) one(ctx context.Context, c Caller, at *FetchAt, out *Fetched) {
	out.Epoch = f.epochs.Now()
	if out.Err = checkNames(at.Queue, at.Partition, "partition"); out.Err != nil {
		return
	}
	part, code := f.look(c, at)
	if f.behind(ctx, code, at, &part) {
		part, code = f.look(c, at)
	}
	if f.late != nil && (code != format.CodeOK || at.Offset > part.next) {
		out.Err = f.late
		return
	}
	if out.Err = errOfCode(code); out.Err != nil {
		return
	}
	start, err := f.n.logStart(&part)
	if err != nil {
		out.Err = errRead(err)
		return
	}
	out.Start, out.End, out.Stable = start, part.next, max(part.stable, start) // an open transaction may be gone
	if at.Offset < start || at.Offset > part.next {
		out.Err = errRange()
		return
	}
	to := part.next
	if at.Committed {
		to = out.Stable
	}
	if at.Offset < to {
		f.add(at, part.span(at.Offset, to), out)
	}
}

// look finds the partition. Positions of one queue stand together, so that it is looked up once.
func (f *fetching) look(c Caller, at *FetchAt) (partView, format.Code) {
	f.n.state.RLock()
	defer f.n.state.RUnlock()
	m := f.n.state.m
	if f.queue.Name != at.Queue || f.queue.ID == 0 {
		var ok bool
		if f.queue, ok = m.QueueByName(c.Tenant, at.Queue); !ok {
			return partView{}, format.CodeUnknownQueue
		}
	}
	p, ok := m.PartitionIn(f.queue.ID, viewBytes(at.Partition))
	if !ok {
		return partView{}, format.CodeUnknownPartition
	}
	part := newPartView(p, &f.queue)
	part.name = at.Partition
	return part, format.CodeOK
}

// finish completes the answers to positions of which everything is read.
func (f *fetching) finish() {
	for i := range f.spans {
		p := &f.spans[i]
		if p.err != nil && len(p.out.Frames) == 0 {
			f.n.event("fetch", p.err)
			p.out.Err = errRead(p.err)
		}
		if p.committed && p.aborts {
			f.aborted(p)
		}
	}
}

// aborted tells which of the records that are returned were aborted. If some of them went since they were looked at, so
// may have what tells that: then none are returned, and the client asks again.
func (f *fetching) aborted(p *fetchSpan) {
	f.n.state.RLock()
	defer f.n.state.RUnlock()
	m := f.n.state.m
	if !m.Readable(p.pid, p.first, p.out.Frames[0].CreatedAt) {
		p.out.Frames = nil
		return
	}
	for _, a := range m.AbortedRanges(nil, p.pid, p.from, p.end) {
		p.out.Aborted = append(p.out.Aborted, Aborted{Producer: int64(a.Producer), First: a.First})
	}
}
