package frontendkafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
)

// OffsetDelete, 0: positions of a group are forgotten, but for topics that a live member is subscribed to.
func offsetDeleteAPI() *api {
	return &api{key: 47, min: 0, max: 0, level: auth.LevelAdmin, denied: kerr.GroupAuthorizationFailed.Code, handle: offsetDelete,
		refuse: func(r *request, code int16) kmsg.Response {
			resp := r.req.ResponseKind().(*kmsg.OffsetDeleteResponse)
			resp.ErrorCode = code
			return resp
		}}
}

func offsetDelete(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.OffsetDeleteRequest)
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	who := c.caller()
	k, code := c.groupKey(req.Group)
	if code != 0 {
		resp.ErrorCode = code
		return resp, nil
	}
	subscribed, code := c.f.groups.Subscribed(ctx, k, func() (bool, error) { return c.f.nativeGroups(ctx, who)(req.Group) })
	if code != 0 {
		resp.ErrorCode = code
		return resp, nil
	}
	var ops []engine.Op
	var codes []*int16
	for i := range req.Topics {
		t := &req.Topics[i]
		row := kmsg.NewOffsetDeleteResponseTopic()
		row.Topic, row.Partitions = t.Topic, make([]kmsg.OffsetDeleteResponseTopicPartition, len(t.Partitions))
		found, err := c.f.topic(ctx, who, t.Topic)
		for k := range t.Partitions {
			p := &row.Partitions[k]
			p.Partition = t.Partitions[k].Partition
			switch {
			case err != nil:
				p.ErrorCode = groupCode(err)
			case !found.has(p.Partition):
				p.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case subscribed(t.Topic):
				p.ErrorCode = kerr.GroupSubscribedToTopic.Code
			case found.internal(): // no position is kept of it
			default:
				ops = append(ops, &engine.CommitOffset{Queue: t.Topic, Partition: partitionName(p.Partition), Group: req.Group, Forget: true})
				codes = append(codes, &p.ErrorCode)
			}
		}
		resp.Topics = append(resp.Topics, row)
	}
	if len(ops) == 0 {
		return resp, nil
	}
	ctx, cancel := within(ctx, 0)
	defer cancel()
	out, err := c.f.engine.Do(ctx, who, engine.Batch{Ops: ops})
	for i := range codes {
		switch {
		case err != nil:
			*codes[i] = groupCode(err)
		case out[i].Err != nil && !errors.Is(out[i].Err, &engine.Error{Code: engine.CodeUnknownPartition}) &&
			!errors.Is(out[i].Err, &engine.Error{Code: engine.CodeUnknownGroup}):
			*codes[i] = groupCode(out[i].Err)
		}
	}
	return resp, nil
}
