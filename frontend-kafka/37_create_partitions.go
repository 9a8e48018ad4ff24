package frontendkafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
)

// CreatePartitions, 0 to 3: raises the width of topics.
func createPartitionsAPI() *api {
	return &api{key: 37, min: 0, max: 3, level: auth.LevelReadWrite, handle: createPartitions,
		refuse: func(r *request, code int16) kmsg.Response {
			resp := r.req.ResponseKind().(*kmsg.CreatePartitionsResponse)
			for _, t := range r.req.(*kmsg.CreatePartitionsRequest).Topics {
				row := kmsg.NewCreatePartitionsResponseTopic()
				row.Topic, row.ErrorCode = t.Topic, code
				resp.Topics = append(resp.Topics, row)
			}
			return resp
		}}
}

func createPartitions(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.CreatePartitionsRequest)
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	named := map[string]int{}
	for i := range req.Topics {
		named[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		row := kmsg.NewCreatePartitionsResponseTopic()
		row.Topic = t.Topic
		err := error(&fault{kerr.InvalidRequest, "the topic is there more than once"})
		if named[t.Topic] == 1 {
			err = c.widen(ctx, t, req.ValidateOnly)
		}
		row.ErrorCode, row.ErrorMessage = controllerCode(err), textOf(err)
		resp.Topics = append(resp.Topics, row)
	}
	return resp, nil
}

// widen raises the width of one topic. Calls of this node do it one after the other, so that none undoes another.
func (c *conn) widen(ctx context.Context, t *kmsg.CreatePartitionsRequestTopic, validate bool) error {
	c.f.widening.Lock()
	defer c.f.widening.Unlock()
	who := c.caller()
	c.f.freshen(ctx, who) // another node may have raised it further, and it never goes down
	found, err := c.f.topic(ctx, who, t.Topic)
	if err == nil {
		err = found.changeable()
	}
	if err != nil {
		return err
	}
	switch {
	case t.Count == found.width:
		return &fault{kerr.InvalidPartitions, fmt.Sprintf("topic %s already has %d partitions", t.Topic, t.Count)}
	case t.Count < found.width:
		return &fault{kerr.InvalidPartitions, fmt.Sprintf("topic %s has %d partitions, %d would not be an increase", t.Topic, found.width, t.Count)}
	}
	if _, err := c.f.checkWidth(int64(t.Count), nil); err != nil {
		return err
	}
	if len(t.Assignment) > 0 {
		cl := c.cluster()
		replicas := make([][]int32, len(t.Assignment))
		for i := range t.Assignment {
			replicas[i] = t.Assignment[i].Replicas
		}
		if len(replicas) != int(t.Count-found.width) {
			return &fault{kerr.InvalidReplicaAssignment, fmt.Sprintf("%d partitions are new and replicas are assigned to %d",
				t.Count-found.width, len(replicas))}
		}
		if err := cl.checkAssignments(replicas); err != nil {
			return err
		}
	}
	if validate {
		return nil
	}
	_, err = c.f.engine.Catalog().Configure(ctx, who, engine.ConfigureRequest{Queue: t.Topic, Guarded: true, Life: found.queue.ID,
		Patch: format.QueueOptions{Set: format.OptKafkaPartitions, KafkaPartitions: int64(t.Count)}})
	return err
}
