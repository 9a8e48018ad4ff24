package frontendkafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
)

// OffsetFetch, 1 to 10: committed positions, -1 where there is none, also of a group that nobody knows. v2 null topics
// mean all and there is a code for the whole, v5 tells leader epochs, v7 can ask for what no open transaction may change,
// v8 asks about several groups, v9 names the member that asks, v10 topics by id.
func offsetFetchAPI() *api {
	return &api{key: 9, min: 1, max: 10, level: auth.LevelReadOnly, denied: kerr.GroupAuthorizationFailed.Code, handle: offsetFetch,
		refuse: func(r *request, code int16) kmsg.Response {
			req := r.req.(*kmsg.OffsetFetchRequest)
			all := fetchedGroups(req)
			out := make([]kmsg.OffsetFetchResponseGroup, len(all))
			for i := range all {
				out[i] = refusedGroup(&all[i], code)
			}
			return fetchedAnswer(req, out)
		}}
}

// fetchedGroups are the groups of a request of any version, each once.
func fetchedGroups(req *kmsg.OffsetFetchRequest) []kmsg.OffsetFetchRequestGroup {
	if req.Version >= 8 {
		req.Groups = once(req.Groups, func(g *kmsg.OffsetFetchRequestGroup) string { return g.Group })
		for i := range req.Groups {
			fetchedTopics(&req.Groups[i])
		}
		return req.Groups
	}
	one := kmsg.NewOffsetFetchRequestGroup()
	if one.Group = req.Group; req.Topics != nil {
		one.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range req.Topics {
		one.Topics = append(one.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: t.Topic, Partitions: t.Partitions})
	}
	fetchedTopics(&one)
	return []kmsg.OffsetFetchRequestGroup{one}
}

// fetchedTopics names every partition once: each may have a position with kilobytes of metadata.
func fetchedTopics(g *kmsg.OffsetFetchRequestGroup) {
	g.Topics = joined(g.Topics, func(t *kmsg.OffsetFetchRequestGroupTopic) (topicKey, *[]int32) {
		return topicKey{t.Topic, t.TopicID}, &t.Partitions
	})
}

// fetchedAnswer is an answer of any version.
func fetchedAnswer(req *kmsg.OffsetFetchRequest, out []kmsg.OffsetFetchResponseGroup) *kmsg.OffsetFetchResponse {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	if req.Version >= 8 {
		resp.Groups = out
		return resp
	}
	resp.ErrorCode = out[0].ErrorCode
	for _, t := range out[0].Topics {
		row := kmsg.NewOffsetFetchResponseTopic()
		row.Topic = t.Topic
		for _, p := range t.Partitions {
			one := kmsg.NewOffsetFetchResponseTopicPartition()
			one.Partition, one.Offset, one.LeaderEpoch, one.Metadata, one.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			row.Partitions = append(row.Partitions, one)
		}
		resp.Topics = append(resp.Topics, row)
	}
	return resp
}

// refusedGroup answers a group with a code, on every partition as well: v1 has no other place for it.
func refusedGroup(g *kmsg.OffsetFetchRequestGroup, code int16) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group, out.ErrorCode = g.Group, code
	for i := range g.Topics {
		out.Topics = append(out.Topics, fetchedTopic(&g.Topics[i], code))
	}
	return out
}

// fetchedTopic answers every partition with no position and a code.
func fetchedTopic(t *kmsg.OffsetFetchRequestGroupTopic, code int16) kmsg.OffsetFetchResponseGroupTopic {
	row := kmsg.NewOffsetFetchResponseGroupTopic()
	row.Topic, row.TopicID = t.Topic, t.TopicID
	for _, n := range t.Partitions {
		row.Partitions = append(row.Partitions, noPosition(n, code))
	}
	return row
}

func noPosition(n int32, code int16) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = n, -1, -1, kmsg.StringPtr(""), code
	return p
}

func offsetFetch(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.OffsetFetchRequest)
	all := fetchedGroups(req)
	out := make([]kmsg.OffsetFetchResponseGroup, len(all))
	list := listing{c: c}
	for i := range all {
		f := offsetFetching{c: c, req: req, g: &all[i], list: &list}
		out[i] = f.run(ctx)
	}
	return fetchedAnswer(req, out), nil
}

// offsetFetching is the answer about one group.
type offsetFetching struct {
	c   *conn
	req *kmsg.OffsetFetchRequest
	g   *kmsg.OffsetFetchRequestGroup
	out kmsg.OffsetFetchResponseGroup
	// list is the room of the whole answer.
	list *listing
}

func (f *offsetFetching) run(ctx context.Context) kmsg.OffsetFetchResponseGroup {
	k, code := f.c.groupKey(f.g.Group)
	if code == 0 {
		if f.g.Group == "" || len(f.g.Group) > 255 {
			code = kerr.InvalidGroupID.Code
		} else {
			code = f.c.f.groups.CheckFetch(ctx, k, f.g.MemberID, f.g.MemberEpoch)
		}
	}
	if code != 0 {
		return refusedGroup(f.g, code)
	}
	f.out = kmsg.NewOffsetFetchResponseGroup()
	f.out.Group = f.g.Group
	var err error
	if f.g.Topics == nil {
		err = f.all(ctx)
	} else {
		err = f.named(ctx)
	}
	if err != nil {
		return refusedGroup(f.g, groupCode(err))
	}
	return f.out
}

// named answers about the partitions that are asked for.
func (f *offsetFetching) named(ctx context.Context) error {
	refs := []engine.PartitionRef{}
	type place struct{ topic, partition int }
	var at []place
	for i := range f.g.Topics {
		t := &f.g.Topics[i]
		found, err := f.c.topicOf(ctx, t.Topic, t.TopicID, f.req.Version >= 10)
		// Nothing is committed for a topic that is not there: asked by name that is no error.
		code := int16(0)
		switch {
		case err == nil, errors.Is(err, kerr.UnknownTopicOrPartition):
		case errors.Is(err, kerr.UnknownTopicID):
			code = kerr.UnknownTopicID.Code
		default:
			return err
		}
		f.out.Topics = append(f.out.Topics, fetchedTopic(t, code))
		for k, n := range t.Partitions {
			if err == nil && n >= 0 && !found.internal() {
				refs, at = append(refs, engine.PartitionRef{Queue: found.name, Partition: partitionName(n)}), append(at, place{i, k})
			}
		}
	}
	for again := true; again; again = len(refs) > 0 {
		n := min(len(refs), committedPage)
		rows, err := f.c.f.engine.Records().Committed(ctx, f.c.caller(), f.g.Group, refs[:n])
		if err != nil {
			return err
		}
		for i := range rows {
			if err := f.list.add(ctx, positionRoom(&rows[i])); err != nil {
				return err
			}
			if err := f.fill(&f.out.Topics[at[i].topic].Partitions[at[i].partition], &rows[i]); err != nil {
				return err
			}
		}
		refs, at = refs[n:], at[n:]
	}
	return nil
}

// committedPage is how many positions are read at a time, with 4 KiB of metadata at most each.
const committedPage = 1024

// positionRoom is about what a position takes in an answer, decoded and encoded.
func positionRoom(row *engine.GroupOffset) int64 { return partitionRoom + 2*int64(len(row.Metadata)) }

// errUnread refuses a group whole: no code of a partition says that its position can not be read just now.
var errUnread = &fault{kerr.CoordinatorNotAvailable, "a position can not be read"}

// fill tells a position; the error is about the whole group.
func (f *offsetFetching) fill(p *kmsg.OffsetFetchResponseGroupTopicPartition, row *engine.GroupOffset) error {
	switch {
	case row.Err != nil:
		return errUnread
	case row.Unstable && f.req.RequireStable:
		p.ErrorCode = kerr.UnstableOffsetCommit.Code
	case row.Found:
		p.Offset, p.LeaderEpoch, p.Metadata = int64(row.Offset), row.LeaderEpoch, kmsg.StringPtr(row.Metadata)
	}
	return nil
}

// all answers about every position of the group that Kafka clients can name.
func (f *offsetFetching) all(ctx context.Context) error {
	rows, err := f.c.f.engine.Records().Committed(ctx, f.c.caller(), f.g.Group, nil)
	if err != nil {
		return err
	}
	skip := ""
	for i := range rows {
		row := &rows[i]
		if err := f.list.add(ctx, positionRoom(row)); err != nil {
			return err
		}
		n, ok := partitionNumber(row.Partition)
		if !ok || row.Queue == skip {
			continue
		}
		if last := len(f.out.Topics) - 1; last < 0 || f.out.Topics[last].Topic != row.Queue {
			found, err := f.c.f.topic(ctx, f.c.caller(), row.Queue)
			if errors.Is(err, kerr.UnknownTopicOrPartition) || err == nil && found.internal() {
				skip = row.Queue
				continue
			}
			if err != nil {
				return err
			}
			t := kmsg.NewOffsetFetchResponseGroupTopic()
			t.Topic, t.TopicID = found.name, found.id
			f.out.Topics = append(f.out.Topics, t)
		}
		p := noPosition(n, 0)
		if err := f.fill(&p, row); err != nil {
			return err
		}
		t := &f.out.Topics[len(f.out.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return nil
}
