package frontendkafka

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"queen/engine"
	"queen/engine/format"
)

// topic is a queue as Kafka clients see it, or an internal topic, which has none.
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

// freshWait is how long an answer waits for its node to catch up with what others were told; without a leader clients are
// told what is known.
const freshWait = time.Second

// freshen has the node catch up with what others were told before the request, so that nobody reads what is older than what
// was answered elsewhere: a topic that was widened, or deleted and made again. On a node that is sure to lead it costs nothing.
func (f *Frontend) freshen(ctx context.Context, who engine.Caller) {
	ctx, cancel := context.WithTimeout(ctx, freshWait)
	defer cancel()
	_ = f.engine.Catalog().CatchUp(ctx, who)
}

// fresh looks at topics again before a partition is refused for a width that may be old. The node catches up once.
type fresh struct {
	f    *Frontend
	who  engine.Caller
	done bool
}

// topic is the topic as it is now; t where it is of another life.
func (l *fresh) topic(ctx context.Context, t *topic) *topic {
	if t.internal() {
		return t
	}
	if !l.done {
		l.done = true
		l.f.freshen(ctx, l.who)
	}
	if now, err := l.f.topic(ctx, l.who, t.name); err == nil && now.id == t.id {
		return now
	}
	return t
}

// has tells whether a partition number is one of the topic's.
func (t *topic) has(n int32) bool { return n >= 0 && n < t.width }

// topic finds a topic by name; UNKNOWN_TOPIC_OR_PARTITION when there is none.
func (f *Frontend) topic(ctx context.Context, who engine.Caller, name string) (*topic, error) {
	if t, ok := internalTopic(name); ok {
		return t, nil
	}
	if !legalTopic(name) {
		return nil, kerr.UnknownTopicOrPartition
	}
	q, err := f.engine.Catalog().Topic(ctx, who, name)
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
	if id == theOffsetsTopic.id {
		return &theOffsetsTopic, nil
	}
	q, err := f.engine.Catalog().TopicByID(ctx, who, id)
	switch {
	case errors.Is(err, &engine.Error{Code: engine.CodeUnknownQueue}):
		return nil, kerr.UnknownTopicID
	case err != nil:
		return nil, err
	case !legalTopic(q.Name):
		return nil, kerr.UnknownTopicID
	}
	return f.seen(q), nil
}

// eachTopic calls fn with every topic, in the order in which they were made and the internal one last, until it returns
// false.
func (f *Frontend) eachTopic(ctx context.Context, who engine.Caller, fn func(*topic) bool) error {
	for page := (engine.Page{Limit: 1000}); ; {
		rows, next, err := f.engine.Catalog().Topics(ctx, who, page)
		if err != nil {
			return err
		}
		for _, q := range rows {
			if legalTopic(q.Name) && !fn(f.seen(q)) {
				return nil
			}
		}
		if next == "" {
			fn(&theOffsetsTopic)
			return nil
		}
		page.After = next
	}
}

// seen is how clients see a queue. Its width is the declared one, or the node's default, and never less than what its
// partitions with decimal names need.
func (f *Frontend) seen(q engine.QueueInfo) *topic {
	width := int64(f.opts.Partitions)
	if q.Options.KafkaPartitions > 0 {
		width = q.Options.KafkaPartitions
	}
	width = min(max(width, int64(q.Width)), int64(f.opts.MaxPartitions))
	return &topic{name: q.Name, id: q.Topic, width: int32(width), queue: q}
}

// createTopic is makeTopic of one of which nothing is set.
func (f *Frontend) createTopic(ctx context.Context, who engine.Caller, name string, width int32) (*topic, error) {
	return f.makeTopic(ctx, who, name, width, nil)
}

// makeTopic makes a topic with a declared width and what is set of it: one entry makes the queue with all of its options, so
// nobody ever sees another. TOPIC_ALREADY_EXISTS when there is such a queue. Records of Kafka carry no transaction id, so there is no dedup window
// unless somebody sets one.
func (f *Frontend) makeTopic(ctx context.Context, who engine.Caller, name string, width int32, set map[string]string) (*topic, error) {
	patch := optionsOf(&format.QueueOptions{}, nil, set)
	patch.Set |= format.OptKafkaPartitions | format.OptDedupWindowSeconds
	patch.KafkaPartitions = int64(width)
	q, err := f.engine.Catalog().Configure(ctx, who, engine.ConfigureRequest{Queue: name, Guarded: true, Patch: patch})
	switch {
	case errors.Is(err, &engine.Error{Code: engine.CodeGone}):
		return nil, kerr.TopicAlreadyExists
	case err != nil:
		return nil, err
	}
	if q.Topic.IsZero() { // deleted right after
		return nil, kerr.UnknownTopicOrPartition
	}
	return f.seen(q), nil
}
