package frontendkafka

import (
	"context"
	"slices"
	"sync"

	"queen/engine"
	"queen/engine/batch"
	"queen/engine/format"
)

// fakeEngine is a node whose records are in memory, for what a real one does not do when it is asked: fail. fail, when
// it is set, is asked before every call.
type fakeEngine struct {
	engine.Engine
	records fakeRecords
}

func newFake(e engine.Engine) *fakeEngine {
	return &fakeEngine{e, fakeRecords{Records: engine.UnbuiltRecords(), parts: map[engine.PartitionRef]*fakePart{},
		watches: map[*fakeWatch]bool{}}}
}

func (f *fakeEngine) Records() engine.Records { return &f.records }

func (f *fakeEngine) Watch(engine.Caller) engine.Watcher {
	return &fakeWatch{r: &f.records, watched: map[engine.PartitionRef]bool{}, wake: make(chan struct{}, 1)}
}

type fakeRecords struct {
	engine.Records

	mu      sync.Mutex
	parts   map[engine.PartitionRef]*fakePart
	watches map[*fakeWatch]bool
	fail    func(call string) *engine.Error
	// produced counts the batches of each call; looked is how many partitions were read.
	produced []int
	looked   int
	lastID   int64
	// leads is the node that leads.
	leads format.Replica
}

type fakePart struct {
	start, end, stable format.Offset
	frames             []engine.Frame
}

func (r *fakeRecords) failing(call string) *engine.Error {
	if r.fail == nil {
		return nil
	}
	return r.fail(call)
}

func (r *fakeRecords) Produce(_ context.Context, _ engine.Caller, batches []engine.RecordBatch) ([]engine.Produced, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failing("produce"); err != nil {
		return nil, err
	}
	r.produced = append(r.produced, len(batches))
	out := make([]engine.Produced, len(batches))
	for i := range batches {
		b := slices.Clone(batches[i].Batch)
		ref := engine.PartitionRef{Queue: batches[i].Queue, Partition: batches[i].Partition}
		p := r.parts[ref]
		if p == nil {
			p = &fakePart{}
			r.parts[ref] = p
		}
		h := batchOf(b)
		batch.Patch(b, int64(p.end), 1)
		out[i].Base, out[i].Start = p.end, p.start
		p.frames = append(p.frames, engine.Frame{Base: p.end, Epoch: 1, Batch: b})
		p.end += format.Offset(h.Count)
		p.stable, out[i].End = p.end, p.end
		r.mark(ref)
	}
	return out, nil
}

func (r *fakeRecords) Fetch(_ context.Context, _ engine.Caller, at []engine.FetchAt, maxBytes int) ([]engine.Fetched, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failing("fetch"); err != nil {
		return nil, err
	}
	out, used := make([]engine.Fetched, len(at)), 0
	for i := range at {
		r.looked++
		p := r.parts[engine.PartitionRef{Queue: at[i].Queue, Partition: at[i].Partition}]
		if p == nil {
			out[i].Err = &engine.Error{Code: engine.CodeUnknownPartition}
			continue
		}
		o := &out[i]
		if o.Start, o.End, o.Stable, o.Epoch = p.start, p.end, p.stable, 1; at[i].Offset < p.start || at[i].Offset > p.end {
			o.Err = &engine.Error{Code: engine.CodeOffsetOutOfRange}
			continue
		}
		mine := 0
		for _, f := range p.frames {
			size := len(f.Batch)
			last := f.Base + format.Offset(batchOf(f.Batch).LastOffsetDelta)
			switch {
			case last < at[i].Offset, at[i].Committed && f.Base >= p.stable:
				continue
			case used > 0 && (used+size > maxBytes || mine+size > at[i].MaxBytes):
			default:
				o.Frames = append(o.Frames, f)
				used, mine = used+size, mine+size
				continue
			}
			break
		}
	}
	return out, nil
}

func (r *fakeRecords) RecordOffsets(_ context.Context, _ engine.Caller, q []engine.RecordOffsetQuery) ([]engine.RecordOffset, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failing("offsets"); err != nil {
		return nil, err
	}
	out := make([]engine.RecordOffset, len(q))
	for i := range q {
		o := &out[i]
		p := r.parts[engine.PartitionRef{Queue: q[i].Queue, Partition: q[i].Partition}]
		if p == nil {
			o.Err = &engine.Error{Code: engine.CodeUnknownPartition}
			continue
		}
		switch o.Found, o.Epoch = true, 1; q[i].Kind {
		case engine.RecordEarliest:
			o.Offset = p.start
		case engine.RecordLatest:
			o.Offset = p.end
		case engine.RecordStable:
			o.Offset = p.stable
		default:
			*o = engine.RecordOffset{Err: &engine.Error{Code: engine.CodeNotBuilt}}
		}
	}
	return out, nil
}

func (r *fakeRecords) InitProducer(context.Context, engine.Caller, engine.ProducerInit) (engine.ProducerIdentity, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastID++
	return engine.ProducerIdentity{ID: r.lastID}, nil
}

// Leader implements engine.Records.
func (r *fakeRecords) Leader(engine.Caller) (format.Replica, format.Term) { return r.leads, 1 }

func (r *fakeRecords) mark(ref engine.PartitionRef) {
	for w := range r.watches {
		if w.watched[ref] && !slices.Contains(w.dirty, ref) {
			w.dirty = append(w.dirty, ref)
			signal(w.wake)
		}
	}
}

type fakeWatch struct {
	r       *fakeRecords
	watched map[engine.PartitionRef]bool
	dirty   []engine.PartitionRef
	wake    chan struct{}
}

func (w *fakeWatch) Add(refs ...engine.PartitionRef) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.watches[w] = true
	for _, ref := range refs {
		w.watched[ref] = true
	}
}

func (w *fakeWatch) Remove(refs ...engine.PartitionRef) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	for _, ref := range refs {
		delete(w.watched, ref)
	}
}

func (w *fakeWatch) Next(ctx context.Context) ([]engine.Change, error) {
	for {
		w.r.mu.Lock()
		var out []engine.Change
		for _, ref := range w.dirty {
			out = append(out, engine.Change{PartitionRef: ref, Exists: true})
		}
		w.dirty = nil
		w.r.mu.Unlock()
		if len(out) > 0 {
			return out, nil
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, &engine.Error{Code: engine.CodeTimeout}
		}
	}
}

func (w *fakeWatch) Close() {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	delete(w.r.watches, w)
}
