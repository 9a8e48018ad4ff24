package frontendkafka

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// DescribeTopicPartitions, 0: topics by name, a page of partitions at a time.
func describeTopicPartitionsAPI() *api {
	return &api{key: 75, min: 0, max: 0, level: auth.LevelPublic, handle: describeTopicPartitions}
}

// pageMax bounds the partitions of one page.
const pageMax = 2000

// pageRow is a topic of a listing: found, or why not.
type pageRow struct {
	name  string
	topic *topic
	err   error
}

func describeTopicPartitions(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeTopicPartitionsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	rows, err := c.pageRows(ctx, req)
	if err != nil {
		return nil, err
	}
	room := int(req.ResponsePartitionLimit)
	if room < 1 || room > pageMax {
		room = pageMax
	}
	from := int32(0)
	if cur := req.Cursor; cur != nil {
		at, found := slices.BinarySearchFunc(rows, cur.Topic, func(r pageRow, name string) int { return cmp.Compare(r.name, name) })
		if rows = rows[at:]; found {
			from = max(cur.Partition, 0)
		}
	}
	cl, epoch := c.cluster(), c.f.leaderEpoch(c.caller().Tenant)
	for _, row := range rows {
		if room == 0 {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: row.name, Partition: from}
			break
		}
		t := kmsg.NewDescribeTopicPartitionsResponseTopic()
		t.Topic, t.AuthorizedOperations = kmsg.StringPtr(row.name), math.MinInt32
		if row.err != nil {
			t.ErrorCode = codeOf(row.err)
			resp.Topics = append(resp.Topics, t)
			room--
			continue
		}
		t.TopicID, t.IsInternal = row.topic.id, row.topic.internal()
		end := min(row.topic.width, from+int32(room))
		for n := from; n < end; n++ {
			t.Partitions = append(t.Partitions, kmsg.DescribeTopicPartitionsResponseTopicPartition{Partition: n, ErrorCode: cl.leaderless(),
				LeaderID: cl.controller, LeaderEpoch: epoch, Replicas: cl.voters, ISR: cl.inSync, EligibleLeaderReplicas: []int32{}, LastKnownELR: []int32{}})
		}
		room -= len(t.Partitions)
		resp.Topics = append(resp.Topics, t)
		if end < row.topic.width {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: row.name, Partition: end}
			break
		}
		from = 0
	}
	return resp, nil
}

// pageRows are the topics that a request is about, by name: those it names, or all.
func (c *conn) pageRows(ctx context.Context, req *kmsg.DescribeTopicPartitionsRequest) (rows []pageRow, err error) {
	who := c.caller()
	if len(req.Topics) == 0 {
		err = c.f.eachTopic(ctx, who, func(t *topic) bool {
			rows = append(rows, pageRow{name: t.name, topic: t})
			return true
		})
	}
	if len(req.Topics) > 0 {
		c.f.freshen(ctx, who)
	}
	req.Topics = once(req.Topics, func(t *kmsg.DescribeTopicPartitionsRequestTopic) string { return t.Topic })
	for i := range req.Topics {
		row := pageRow{name: req.Topics[i].Topic}
		row.topic, row.err = c.f.topic(ctx, who, row.name)
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b pageRow) int { return cmp.Compare(a.name, b.name) })
	return slices.CompactFunc(rows, func(a, b pageRow) bool { return a.name == b.name }), err
}
