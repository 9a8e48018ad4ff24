package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
	"queen/frontend-kafka/groups"
)

// OffsetCommit, 2 to 10: positions of a consumer group. v6 brings leader epochs, v7 instance ids, v9 member epochs of
// KIP-848, v10 topic ids. All positions of a request are one entry of the log. Nothing expires: the retention of v2 to
// v4 is not looked at.
func offsetCommitAPI() *api {
	return &api{key: 8, min: 2, max: 10, level: auth.LevelReadOnly, denied: kerr.GroupAuthorizationFailed.Code, handle: offsetCommit,
		refuse: func(r *request, code int16) kmsg.Response {
			req := r.req.(*kmsg.OffsetCommitRequest)
			resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
			for i := range req.Topics {
				resp.Topics = append(resp.Topics, committedTopic(&req.Topics[i], code))
			}
			return resp
		}}
}

// commitEpochs is the version from which members of KIP-848 commit, and are told that their epoch is stale.
const commitEpochs = 9

// committedTopic answers a topic with one code.
func committedTopic(t *kmsg.OffsetCommitRequestTopic, code int16) kmsg.OffsetCommitResponseTopic {
	row := kmsg.NewOffsetCommitResponseTopic()
	row.Topic, row.TopicID = t.Topic, t.TopicID
	row.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		row.Partitions[i].Partition, row.Partitions[i].ErrorCode = t.Partitions[i].Partition, code
	}
	return row
}

func offsetCommit(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.OffsetCommitRequest)
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	if _, code := c.groupKey(req.Group); code != 0 {
		return r.api.refuse(r, code), nil
	}
	b := commitBuilder{c: c, who: c.caller(), commit: engine.GroupCommit{Group: req.Group,
		Producer: engine.ProducerRef{ID: engine.NoProducer}}}
	for i := range req.Topics {
		t := &req.Topics[i]
		row := committedTopic(t, 0)
		found, err := c.topicOf(ctx, t.Topic, t.TopicID, req.Version >= 10)
		for k := range t.Partitions {
			p := &t.Partitions[k]
			row.Partitions[k].ErrorCode = groupCode(err)
			if err == nil {
				row.Partitions[k].ErrorCode = b.add(found, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, &row.Partitions[k].ErrorCode)
			}
		}
		resp.Topics = append(resp.Topics, row)
	}
	ctx, cancel := within(ctx, 0)
	defer cancel()
	code := b.run(ctx, groups.Committer{Member: req.MemberID, Instance: req.InstanceID, Generation: req.Generation,
		NoEpochs: req.Version < commitEpochs})
	if code != 0 {
		return r.api.refuse(r, code), nil
	}
	return resp, nil
}

// topicOf finds a topic by its name or, where the version says so, by its id.
func (c *conn) topicOf(ctx context.Context, name string, id [16]byte, byID bool) (*topic, error) {
	if byID {
		return c.f.topicByID(ctx, c.caller(), id)
	}
	return c.f.topic(ctx, c.caller(), name)
}

// commitBuilder collects the positions of a request; codes are where the answer to each goes.
type commitBuilder struct {
	c      *conn
	who    engine.Caller
	commit engine.GroupCommit
	codes  []*int16
}

// add takes a position in, or gives the code for which it is none.
func (b *commitBuilder) add(t *topic, partition int32, offset int64, epoch int32, metadata *string, code *int16) int16 {
	p := engine.GroupPosition{Queue: t.name, Partition: partitionName(partition), Offset: format.Offset(offset), LeaderEpoch: max(epoch, -1)}
	if metadata != nil {
		p.Metadata = *metadata
	}
	switch {
	case !t.has(partition):
		return kerr.UnknownTopicOrPartition.Code
	case offset < 0:
		return kerr.InvalidRequest.Code
	case len(p.Metadata) > format.MaxPositionMetadata:
		return kerr.OffsetMetadataTooLarge.Code
	case t.internal():
		return internalPosition(&p)
	}
	b.commit.Positions = append(b.commit.Positions, p)
	b.codes = append(b.codes, code)
	return 0
}

// run commits what was added and fills in the codes; a code that is returned is about the whole.
func (b *commitBuilder) run(ctx context.Context, by groups.Committer) int16 {
	bad, code := b.c.f.commitOffsets(ctx, b.who, b.commit, by)
	if code != 0 {
		return code
	}
	for i, e := range bad {
		if e != nil {
			*b.codes[i] = groupCode(e)
		}
	}
	return 0
}
