package frontendkafka

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"queen/engine"
)

// offsetsTopic is the one internal topic, which clients and tools of Kafka expect to find: there Kafka keeps the positions
// of consumer groups. Here they are rows of the engine, so the topic is shown, always empty, and nothing of it is in the
// engine. A queue of the same name is another thing, of which Kafka clients see nothing: no call about the topic may reach
// the engine with its name.
const offsetsTopic = "__consumer_offsets"

// offsetsWidth is how many partitions it has, as Kafka's has unless somebody sets offsets.topic.num.partitions.
const offsetsWidth = 50

// theOffsetsTopic is what is known of it. Its id is the same on every node and in every tenant; it is never written.
var theOffsetsTopic = topic{name: offsetsTopic, id: [16]byte([]byte("consumer_offsets")), width: offsetsWidth}

// errInternal refuses to change the topic, or to write to it. Kafka says the same to who writes to it or deletes records of it. It does
// have the topic deleted, widened and configured, which here there is nothing to do it with.
var errInternal = &fault{kerr.InvalidTopicException, offsetsTopic + " is an internal topic: it is always empty and can not be changed"}

// errEmpty is how the engine speaks of a partition that nobody has written to.
var errEmpty = &engine.Error{Code: engine.CodeUnknownPartition}

// internal tells whether the topic is no queue.
func (t *topic) internal() bool { return t.name == offsetsTopic }

// internalTopic finds an internal topic by name.
func internalTopic(name string) (*topic, bool) {
	if name != offsetsTopic {
		return nil, false
	}
	return &theOffsetsTopic, true
}

// changeable is nil for a topic that clients may write to and change, and for others the reason.
func (t *topic) changeable() error {
	if t.internal() {
		return errInternal
	}
	return nil
}

// internalPosition judges a position that is committed on an internal topic. Members that hold its partitions commit where
// they stand there together with everything else, and an error would fail all of it for them. The one place there is in an
// empty partition is 0, and that is where whoever has no position begins, so it is taken and nothing is kept. What would
// have to be kept is refused.
func internalPosition(p *engine.GroupPosition) int16 {
	switch {
	case p.Offset != 0:
		return kerr.InvalidRequest.Code
	case p.Metadata != "":
		return kerr.OffsetMetadataTooLarge.Code
	}
	return 0
}

// describeInternal fills in the configuration of an internal topic; Kafka's is compacted.
func (r *configResource) describeInternal() {
	r.values[cleanupPolicy], r.set[cleanupPolicy] = "compact", true
}
