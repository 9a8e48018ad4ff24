package frontendkafka

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
)

// Fetch, 4 to 18: records out of partitions. v5 tells log starts, v7 has sessions, v9 leader epochs, v10 may answer
// with zstd, v12 tells where logs diverge, v13 names topics by id. Batches go out as they were produced; messages of
// native producers as batches made for the answer.
//
// An answer is complete when there are min_bytes, when a partition has an error, or after max_wait. A partition's code
// is one of a closed set, see fetchCode: others end Java's consumer.
func fetchAPI() *api {
	return &api{key: 1, min: 4, max: 18, level: auth.LevelReadOnly, denied: kerr.TopicAuthorizationFailed.Code,
		handle: fetch, refuse: refuseFetch}
}

const (
	// fetchIDs is the version from which topics are named by id.
	fetchIDs = 13
	// fetchGuided is the version from which answers say where another leader is.
	fetchGuided = 16
	// fetchBytesMax bounds one answer, whatever the client allows. One batch is always given whole.
	fetchBytesMax = 32 << 20
	// fetchMinMax bounds the bytes that a fetch waits for: they are held meanwhile.
	fetchMinMax = 1 << 20
	// fetchWaitMax bounds how long a fetch waits.
	fetchWaitMax = 10 * time.Minute
	// fetchChunk is how many partitions one call of the engine's reads.
	fetchChunk = 256
)

func fetch(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.FetchRequest)
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	s, full, code := c.session(req)
	if code != nil {
		resp.ErrorCode = code.Code
		return resp, nil
	}
	defer s.mu.Unlock()
	defer s.unwatch()
	f := &fetching{c: c, who: c.caller(), s: s, full: full, epoch: c.f.leaderEpoch(c.caller().Tenant), committed: req.IsolationLevel == 1,
		limit: min(max(int(req.MaxBytes), 1), fetchBytesMax), began: c.f.opts.Clock.Mono(), now: c.f.now()}
	defer f.hold()
	f.claim()
	f.wanted = int(min(max(req.MinBytes, 0), fetchMinMax))
	f.read(ctx, s.ready(f.committed))
	if wait := min(time.Duration(req.MaxWaitMillis)*time.Millisecond, fetchWaitMax); wait > 0 && !f.complete() {
		if err := f.park(ctx, wait); err != nil {
			return nil, err
		}
	}
	c.lagging(f)
	resp.SessionID = s.id
	f.answer(resp)
	tellLeader(resp, c)
	resp.ThrottleMillis = int32(f.throttled / time.Millisecond)
	return resp, ctx.Err()
}

// park waits for changes of what is being fetched, and reads what changed, until the answer is complete or time is up.
// Answers to earlier requests do not wait with it; an error is that they can not be written.
func (f *fetching) park(ctx context.Context, wait time.Duration) error {
	f.look.waited = true
	if err := f.c.flush(); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(f.c.waiting, wait)
	defer cancel()
	f.c.f.parked.Add(1)
	defer f.c.f.parked.Add(-1)
	if f.s.watch(f.c.f.engine) {
		// What happened between the first look and the watch is in no change: look again.
		f.read(ctx, f.s.all())
	}
	for !f.complete() {
		f.reserve(f.got)
		changes, err := f.s.watcher.Next(waiting)
		if err != nil {
			return nil
		}
		f.claim()
		f.read(ctx, f.s.changed(changes))
	}
	return nil
}

// fetching is one answer in the making.
type fetching struct {
	c         *conn
	who       engine.Caller
	s         *fetchSession
	full      bool
	epoch     int32 // of every partition
	committed bool
	wanted    int // bytes that complete the answer
	limit     int // bytes that the client takes
	left      int // bytes that still fit
	got       int
	reserved  int // bytes claimed of the room for answers
	throttled time.Duration
	failed    bool
	// parts are those that were looked at, each once, in the order of the first look.
	parts []*fetchPart
	// pass numbers a look at partitions: topics are looked up once in each.
	pass uint64
	at   []engine.FetchAt
	of   []*fetchPart
	// What tells whether the consumer falls behind; the fetch began at began and now, of either clock.
	began int64
	now   format.Wall
	look  look
}

// complete says that there is nothing to wait for.
func (f *fetching) complete() bool { return f.failed || f.got >= f.wanted || f.left <= 0 }

// read looks at partitions and keeps what they have. Where there is no room left, an incremental fetch looks no further;
// a full one tells of every partition, so it still asks where the rest ends.
func (f *fetching) read(ctx context.Context, parts []*fetchPart) {
	f.pass = f.c.f.fetchPass.Add(1)
	for len(parts) > 0 {
		full := f.left <= 0
		if full && !f.full {
			return
		}
		chunk := parts[:min(len(parts), fetchChunk)]
		parts = parts[len(chunk):]
		f.positions(ctx, chunk)
		if len(f.at) == 0 {
			continue
		}
		res, err := f.c.f.engine.Records().Fetch(ctx, f.who, f.at, max(f.left, 1))
		for i, p := range f.of {
			switch {
			case err != nil:
				f.throttle(err)
				f.fail(p, fetchCode(err, p.topic.byID))
			case i < len(res):
				if full {
					res[i].Frames = nil
				}
				f.take(p, &res[i])
			}
		}
	}
}

// positions lists where to read; what is wrong is answered without the engine.
func (f *fetching) positions(ctx context.Context, parts []*fetchPart) {
	f.at, f.of = f.at[:0], f.of[:0]
	for _, p := range parts {
		f.forget(p)
		if code := f.check(ctx, p); code != nil {
			f.fail(p, code.Code)
			continue
		}
		if _, internal := internalTopic(p.topic.name); internal {
			f.take(p, &engine.Fetched{Err: errEmpty})
			continue
		}
		if p.lastEpoch >= 0 && f.diverged(ctx, p) {
			continue
		}
		f.at = append(f.at, engine.FetchAt{Queue: p.topic.name, Partition: partitionName(p.num),
			Offset: format.Offset(p.offset), MaxBytes: max(int(p.maxBytes), 1), Committed: f.committed})
		f.of = append(f.of, p)
	}
}

// forget takes back what an earlier look at a partition gave; the first look lists it.
func (f *fetching) forget(p *fetchPart) {
	if p.res == nil {
		p.res = &fetchResult{}
		f.parts = append(f.parts, p)
		return
	}
	f.got -= p.res.bytes
	f.left += p.res.bytes
	*p.res = fetchResult{}
}

// check finds the partition's topic and judges what the client believes of it.
func (f *fetching) check(ctx context.Context, p *fetchPart) *kerr.Error {
	if code := p.topic.resolve(ctx, f); code != nil {
		return code
	}
	switch {
	case p.num < 0 || p.num >= p.topic.width:
		return kerr.UnknownTopicOrPartition
	case p.offset < 0:
		return kerr.OffsetOutOfRange
	}
	return epochFault(p.leaderEpoch, f.epoch)
}

// epochFault compares the leader epoch that a client believes in with the real one; -1 is none.
func epochFault(told, real int32) *kerr.Error {
	switch {
	case told < 0 || told == real:
		return nil
	case told < real:
		return kerr.FencedLeaderEpoch
	}
	return kerr.UnknownLeaderEpoch
}

// diverged tells a client whose log is not the partition's any more where the two part.
func (f *fetching) diverged(ctx context.Context, p *fetchPart) bool {
	res, err := f.c.f.engine.Records().RecordOffsets(ctx, f.who, []engine.RecordOffsetQuery{{Queue: p.topic.name,
		Partition: partitionName(p.num), Kind: engine.RecordOfEpoch, Epoch: format.Term(p.lastEpoch)}})
	if err != nil || len(res) != 1 || res[0].Err != nil || !res[0].Found {
		return false // the fetch itself says what is wrong
	}
	end, epoch := int64(res[0].Offset), epochNumber(res[0].Epoch)
	if end >= p.offset && epoch >= p.lastEpoch {
		return false
	}
	p.res.diverging = kmsg.FetchResponseTopicPartitionDivergingEpoch{Epoch: epoch, EndOffset: end}
	p.res.diverges = true
	p.res.hw, p.res.stable, p.res.start = -1, -1, -1
	f.failed = true // answered at once, like an error
	return true
}

// epochNumber is a term as clients are told it.
func epochNumber(t format.Term) int32 { return int32(min(t, math.MaxInt32)) }

func (f *fetching) fail(p *fetchPart, code int16) {
	*p.res = fetchResult{code: code, hw: -1, stable: -1, start: -1}
	f.failed = true
	f.s.keep(p)
}

// take keeps what the engine gave. Partitions that nobody has written to yet have no record and no end but 0.
func (f *fetching) take(p *fetchPart, got *engine.Fetched) {
	if got.Err != nil && got.Err.Code == engine.CodeUnknownPartition {
		if p.offset > 0 {
			f.fail(p, kerr.OffsetOutOfRange.Code)
			return
		}
		got = &engine.Fetched{}
	}
	if got.Err != nil {
		f.fail(p, fetchCode(got.Err, p.topic.byID))
		return
	}
	r := p.res
	r.hw, r.stable, r.start = int64(got.End), int64(got.Stable), int64(got.Start)
	r.records = renderFrames(got.Frames, f.epoch)
	r.aborted = got.Aborted
	r.bytes = len(r.records)
	f.got += r.bytes
	f.left -= r.bytes
	end := r.hw
	if f.committed {
		end = r.stable
	}
	f.age(p, got, end)
	switch {
	case r.bytes > 0:
		f.s.rotate(p)
	case p.offset < end:
		f.s.keep(p) // there was no room for it
	default:
		f.s.settle(p)
	}
}

// answer lists every partition of a full fetch, and of an incremental one those with news.
func (f *fetching) answer(resp *kmsg.FetchResponse) {
	index := map[*fetchTopic]int{}
	for _, p := range f.parts {
		if f.full || p.news() {
			i, ok := index[p.topic]
			if !ok {
				i = len(resp.Topics)
				index[p.topic] = i
				t := kmsg.NewFetchResponseTopic()
				t.Topic, t.TopicID = p.topic.name, p.topic.id
				resp.Topics = append(resp.Topics, t)
			}
			resp.Topics[i].Partitions = append(resp.Topics[i].Partitions, f.partition(p))
			p.tell()
		}
		p.res = nil
	}
	f.reserve(f.got)
	// Encoded at once: an answer of megabytes that doubles its way there copies and clears as much again.
	f.c.out = slices.Grow(f.c.out, f.got+len(f.parts)*fetchPartRoom)
}

// fetchPartRoom is about what a partition takes in an answer beside its records.
const fetchPartRoom = 64

// partition is one partition of the answer.
func (f *fetching) partition(p *fetchPart) kmsg.FetchResponseTopicPartition {
	out := kmsg.NewFetchResponseTopicPartition()
	r := p.res
	out.Partition, out.ErrorCode = p.num, r.code
	out.HighWatermark, out.LastStableOffset, out.LogStartOffset = r.hw, r.stable, r.start
	out.RecordBatches = r.records
	if out.RecordBatches == nil {
		out.RecordBatches = []byte{}
	}
	if r.diverges {
		out.DivergingEpoch = r.diverging
	}
	if f.committed && r.code == 0 {
		out.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, len(r.aborted))
		for i, a := range r.aborted {
			out.AbortedTransactions[i].ProducerID, out.AbortedTransactions[i].FirstOffset = a.Producer, int64(a.First)
		}
	}
	return out
}

// tellLeader fills in who leads, for partitions whose client believes in another leader.
func tellLeader(resp *kmsg.FetchResponse, c *conn) {
	var g *guide
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			switch p.ErrorCode {
			case kerr.NotLeaderForPartition.Code, kerr.FencedLeaderEpoch.Code, kerr.UnknownLeaderEpoch.Code:
			default:
				continue
			}
			if g == nil {
				now := c.guide()
				g = &now
			}
			p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = g.leader, g.epoch
		}
	}
	if g != nil && g.at != nil && resp.Version >= fetchGuided {
		resp.Brokers = []kmsg.FetchResponseBroker{{NodeID: g.at.id, Host: g.at.host, Port: g.at.port, Rack: g.at.rack}}
	}
}

// refuseFetch has one code for everything: at the top where there is one, else in every partition.
func refuseFetch(r *request, code int16) kmsg.Response {
	req := r.req.(*kmsg.FetchRequest)
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for _, t := range req.Topics {
		out := kmsg.NewFetchResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			part := kmsg.NewFetchResponseTopicPartition()
			part.Partition, part.ErrorCode, part.HighWatermark, part.LogStartOffset = p.Partition, code, -1, -1
			part.RecordBatches = []byte{}
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
