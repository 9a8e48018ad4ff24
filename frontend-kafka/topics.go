package frontendkafka

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"queen/engine"
	"queen/engine/format"
)

// topic is a queue as Kafka clients see it.
type topic struct {
	name string
	id   [16]byte
	// width is how many partitions there are, 0 to width-1; what the queue holds beyond is not addressable.
	width int32
	queue engine.QueueInfo
}

// topicNameMax bounds names of topics, in bytes.
const topicNameMax = 249

// legalTopic tells whether a name can be a topic's. A queue whose name is not legal, or is kept for internal topics,
// does not exist for Kafka clients.
func legalTopic(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > topicNameMax || strings.HasPrefix(name, "__") {
		return false
	}
	for i := range len(name) {
		b := name[i]
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '.' || b == '_' || b == '-' {
			continue
		}
		return false
	}
	return true
}

// partitionName is the queue's partition of a number.
func partitionName(n int32) string { return strconv.FormatInt(int64(n), 10) }

// has tells whether a partition number is one of the topic's.
func (t *topic) has(n int32) bool { return n >= 0 && n < t.width }

// topic finds a topic by name; UNKNOWN_TOPIC_OR_PARTITION when there is none.
func (f *Frontend) topic(ctx context.Context, who engine.Caller, name string) (*topic, error) {
	if !legalTopic(name) {
		return nil, kerr.UnknownTopicOrPartition
	}
	q, err := f.engine.Catalog().FindQueue(ctx, who, name, 0)
	if err != nil {
		if errors.Is(err, &engine.Error{Code: engine.CodeUnknownQueue}) {
			return nil, kerr.UnknownTopicOrPartition
		}
		return nil, err
	}
	return f.seen(q), nil
}

// topicByID finds a topic by its id; UNKNOWN_TOPIC_ID when there is none.
func (f *Frontend) topicByID(ctx context.Context, who engine.Caller, id [16]byte) (*topic, error) {
	q, err := f.engine.Catalog().FindQueue(ctx, who, "", queueID(id))
	switch {
	case errors.Is(err, &engine.Error{Code: engine.CodeUnknownQueue}):
		return nil, kerr.UnknownTopicID
	case err != nil:
		return nil, err
	case !legalTopic(q.Name) || topicID(&q) != id:
		return nil, kerr.UnknownTopicID
	}
	return f.seen(q), nil
}

// eachTopic calls fn with every topic by name until it returns false.
func (f *Frontend) eachTopic(ctx context.Context, who engine.Caller, fn func(*topic) bool) error {
	for page := (engine.Page{Limit: 1000}); ; {
		rows, next, err := f.engine.Catalog().Queues(ctx, who, page)
		if err != nil {
			return err
		}
		for _, q := range rows {
			if legalTopic(q.Name) && !fn(f.seen(q)) {
				return nil
			}
		}
		if next == "" {
			return nil
		}
		page.After = next
	}
}

// seen is how clients see a queue. Its width is the declared one, or the node's default, and never less than what its
// partitions with decimal names need.
func (f *Frontend) seen(q engine.QueueInfo) *topic {
	declared := int64(f.opts.Partitions)
	if q.Options.KafkaPartitions > 0 {
		declared = q.Options.KafkaPartitions
	}
	return &topic{name: q.Name, id: topicID(&q), width: int32(min(declared, int64(f.opts.MaxPartitions))), queue: q}
}

// topicID names one life of a queue. It is never zero and none of those that Kafka keeps for itself.
func topicID(q *engine.QueueInfo) (id [16]byte) {
	copy(id[:], "queen\x00\x40\x00")
	id[8] = 0x80
	binary.BigEndian.PutUint32(id[9:], uint32(q.ID>>24))
	id[13], id[14], id[15] = byte(q.ID>>16), byte(q.ID>>8), byte(q.ID)
	return id
}

// queueID is the queue that topicID made an id of.
func queueID(id [16]byte) format.QueueID {
	return format.QueueID(uint64(binary.BigEndian.Uint32(id[9:]))<<24 | uint64(id[13])<<16 | uint64(id[14])<<8 | uint64(id[15]))
}

// createTopic makes a topic with a declared width: one entry makes the queue and its width, so nobody ever sees another.
// Records of Kafka carry no transaction id, so there is no dedup window unless somebody sets one.
func (f *Frontend) createTopic(ctx context.Context, who engine.Caller, name string, width int32) (*topic, error) {
	q, err := f.engine.Catalog().Configure(ctx, who, engine.ConfigureRequest{Queue: name, Patch: format.QueueOptions{
		Set: format.OptKafkaPartitions | format.OptDedupWindowSeconds, KafkaPartitions: int64(width)}})
	if err != nil {
		return nil, err
	}
	return f.seen(q), nil
}
