package ceiling

import (
	"encoding/binary"
	"maps"
	"slices"
	"sort"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Places in a record batch.
const (
	batchEpochAt     = 12
	batchLastDeltaAt = 23
	batchHeaderBytes = 61
)

// batch is one as produced, its base offset patched; data lies in the buffer of its request.
type batch struct {
	last int64
	data []byte
}

type partition struct {
	batches  []batch
	next     int64
	watchers []*watch
}

// store is every topic and session.
type store struct {
	mu       sync.Mutex
	topics   map[string][]partition
	order    []*partition // one per kept batch, oldest first
	kept     int
	keepMax  int
	producer int64
	sessions map[int32]*session
	lastID   int32
}

func (st *store) init(keepMax int) {
	st.topics, st.sessions, st.keepMax = map[string][]partition{}, map[int32]*session{}, keepMax
}

func (st *store) producerID() int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.producer++
	return st.producer
}

func (st *store) create(name string, width int) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.topics[name] != nil {
		return false
	}
	st.topics[name] = make([]partition, width)
	return true
}

func (st *store) width(name string) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return len(st.topics[name])
}

func (st *store) names() []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.Sorted(maps.Keys(st.topics))
}

// at is a partition, nil when there is none. The lock is held.
func (st *store) at(topic string, index int32) *partition {
	parts := st.topics[topic]
	if index < 0 || int(index) >= len(parts) {
		return nil
	}
	return &parts[index]
}

func (st *store) produce(req *kmsg.ProduceRequest) *kmsg.ProduceResponse {
	resp := kmsg.NewProduceResponse()
	resp.Topics = make([]kmsg.ProduceResponseTopic, 0, len(req.Topics))
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, t := range req.Topics {
		out := kmsg.NewProduceResponseTopic()
		out.Topic = t.Topic
		out.Partitions = make([]kmsg.ProduceResponseTopicPartition, 0, len(t.Partitions))
		for _, rp := range t.Partitions {
			op := kmsg.NewProduceResponseTopicPartition()
			op.Partition = rp.Partition
			if p := st.at(t.Topic, rp.Partition); p == nil {
				op.ErrorCode = errUnknownTopic
			} else {
				op.BaseOffset, op.ErrorCode = st.append(p, rp.Records)
				op.LogStartOffset = 0
			}
			out.Partitions = append(out.Partitions, op)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return &resp
}

// append gives a batch its offset and keeps it.
func (st *store) append(p *partition, data []byte) (base int64, code int16) {
	if len(data) < batchHeaderBytes {
		return -1, errCorruptMessage
	}
	delta := int64(binary.BigEndian.Uint32(data[batchLastDeltaAt:]))
	base = p.next
	binary.BigEndian.PutUint64(data, uint64(base))
	binary.BigEndian.PutUint32(data[batchEpochAt:], 0)
	p.next += delta + 1
	p.batches = append(p.batches, batch{p.next - 1, data})
	st.order = append(st.order, p)
	st.kept += len(data)
	for st.kept > st.keepMax && len(st.order) > 1 {
		oldest := st.order[0]
		st.order = st.order[1:]
		st.kept -= len(oldest.batches[0].data)
		oldest.batches[0].data = nil
		oldest.batches = oldest.batches[1:]
	}
	for _, w := range p.watchers {
		w.session.mark(w)
	}
	return base, 0
}

// first is the lowest offset that is kept.
func (p *partition) first() int64 {
	if len(p.batches) == 0 {
		return p.next
	}
	return int64(binary.BigEndian.Uint64(p.batches[0].data))
}

// read appends whole batches from the one that holds offset on, at most limit bytes after the first.
func (p *partition) read(out []byte, offset int64, limit int) []byte {
	i := sort.Search(len(p.batches), func(i int) bool { return p.batches[i].last >= offset })
	for n := 0; i < len(p.batches); i++ {
		data := p.batches[i].data
		if n > 0 && n+len(data) > limit {
			break
		}
		n += len(data)
		out = append(out, data...)
	}
	return out
}

func (st *store) listOffsets(req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := kmsg.NewListOffsetsResponse()
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, t := range req.Topics {
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		for _, rp := range t.Partitions {
			op := kmsg.NewListOffsetsResponseTopicPartition()
			op.Partition, op.LeaderEpoch = rp.Partition, 0
			p := st.at(t.Topic, rp.Partition)
			switch {
			case p == nil:
				op.ErrorCode = errUnknownTopic
			case rp.Timestamp == -2:
				op.Offset = p.first()
			default:
				op.Offset = p.next
			}
			out.Partitions = append(out.Partitions, op)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return &resp
}
