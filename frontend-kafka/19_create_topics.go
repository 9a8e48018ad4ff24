package frontendkafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// CreateTopics, 2 to 7. v4 lets width and replication be -1 for the node's own, v5 tells the configuration, v7 the id.
func createTopicsAPI() *api {
	return &api{key: 19, min: 2, max: 7, level: auth.LevelReadWrite, handle: createTopics, refuse: refuseCreateTopics}
}

func refuseCreateTopics(r *request, code int16) kmsg.Response {
	resp := r.req.ResponseKind().(*kmsg.CreateTopicsResponse)
	for _, t := range r.req.(*kmsg.CreateTopicsRequest).Topics {
		row := kmsg.NewCreateTopicsResponseTopic()
		row.Topic, row.ErrorCode = t.Topic, code
		resp.Topics = append(resp.Topics, row)
	}
	return resp
}

func createTopics(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.CreateTopicsRequest)
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	named, list := map[string]int{}, listing{c: c}
	for i := range req.Topics {
		named[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		row := kmsg.NewCreateTopicsResponseTopic()
		row.Topic, row.NumPartitions, row.ReplicationFactor = t.Topic, -1, -1
		if named[t.Topic] > 1 {
			row.ErrorCode, row.ErrorMessage = kerr.InvalidRequest.Code, kmsg.StringPtr("the topic is there more than once")
			named[t.Topic] = -named[t.Topic] // one answer for all of them
		} else if named[t.Topic] < 0 {
			continue
		} else if err := list.add(ctx, int64(len(topicConfigs))*configRoom); err != nil {
			if errors.Is(err, errHungUp) {
				return nil, err
			}
			row.ErrorCode, row.ErrorMessage = controllerCode(err), textOf(err)
		} else if err := c.createOne(ctx, t, req.ValidateOnly, &row); err != nil {
			row.ErrorCode, row.ErrorMessage = controllerCode(err), textOf(err)
		}
		resp.Topics = append(resp.Topics, row)
	}
	return resp, nil
}

// createOne makes one topic and fills in its answer.
func (c *conn) createOne(ctx context.Context, t *kmsg.CreateTopicsRequestTopic, validate bool, row *kmsg.CreateTopicsResponseTopic) error {
	if _, ok := internalTopic(t.Topic); ok {
		return &fault{kerr.TopicAlreadyExists, fmt.Sprintf("topic %s exists already", t.Topic)}
	}
	if !legalTopic(t.Topic) {
		return &fault{kerr.InvalidTopicException, "a topic has 1 to 249 of the characters A-Z a-z 0-9 . _ -, is not . or .., " +
			"and does not start with __"}
	}
	cl := c.cluster()
	width, err := c.f.askedWidth(t, &cl)
	if err != nil {
		return err
	}
	set := map[string]string{}
	for _, kv := range t.Configs {
		if kv.Value == nil {
			return &fault{kerr.InvalidConfig, fmt.Sprintf("configuration %.64q has no value", kv.Name)}
		}
		if err := c.checkTopicConfig(kv.Name, *kv.Value); err != nil {
			return err
		}
		set[kv.Name] = *kv.Value
	}
	who := c.caller()
	if _, err := c.f.topic(ctx, who, t.Topic); err == nil {
		return &fault{kerr.TopicAlreadyExists, fmt.Sprintf("topic %s exists already", t.Topic)}
	} else if codeOf(err) != kerr.UnknownTopicOrPartition.Code {
		return err
	}
	made := &topic{name: t.Topic, width: width}
	if !validate {
		if made, err = c.f.makeTopic(ctx, who, t.Topic, width, set); err != nil {
			return err
		}
		if err := c.recordMade(ctx, made, set); err != nil {
			return err
		}
	}
	row.TopicID, row.NumPartitions, row.ReplicationFactor = made.id, width, int16(len(cl.voters))
	for _, n := range topicConfigs {
		kv := kmsg.NewCreateTopicsResponseTopicConfig()
		value, given := set[n.name]
		if kv.Source = int8(kmsg.ConfigSourceDynamicTopicConfig); !given {
			value, kv.Source = n.def, int8(kmsg.ConfigSourceDefaultConfig)
		}
		kv.Name, kv.Value = n.name, kmsg.StringPtr(value)
		row.Configs = append(row.Configs, kv)
	}
	return nil
}

// recordTime is how long the row of a topic that was made may take: its request may have no time left.
const recordTime = 10 * time.Second

// recordMade keeps what was set of a topic that was just made, also when its client went away. The topic does everything
// of it that a queue has an option for already. It stays when the rest can not be kept: there may be messages in it that
// somebody was told are stored.
func (c *conn) recordMade(ctx context.Context, made *topic, set map[string]string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	err := c.f.recordFirst(ctx, c.caller().Tenant, made, set)
	if err == nil {
		return nil
	}
	return &fault{kerr.TypedErrorForCode(controllerCode(err)), fmt.Sprintf("topic %s was made, and not everything that was "+
		"set of it could be kept: set its configuration again (%v)", made.name, err)}
}

// askedWidth is the width that a request asks for, checked, and so is its replication.
func (f *Frontend) askedWidth(t *kmsg.CreateTopicsRequestTopic, cl *cluster) (int32, error) {
	if len(t.ReplicaAssignment) > 0 {
		if t.NumPartitions != -1 || t.ReplicationFactor != -1 {
			return 0, &fault{kerr.InvalidRequest, "with replicas assigned, the number of partitions and the replication factor are -1"}
		}
		replicas := make([][]int32, len(t.ReplicaAssignment))
		for _, a := range t.ReplicaAssignment {
			if a.Partition < 0 || int(a.Partition) >= len(replicas) || replicas[a.Partition] != nil {
				return 0, &fault{kerr.InvalidReplicaAssignment, "the partitions that replicas are assigned to are not 0, 1, 2 and so on"}
			}
			replicas[a.Partition] = a.Replicas
		}
		return f.checkWidth(int64(len(replicas)), cl.checkAssignments(replicas))
	}
	if rf := int(t.ReplicationFactor); rf != -1 && (rf < 1 || rf > len(cl.voters)) {
		return 0, &fault{kerr.InvalidReplicationFactor, fmt.Sprintf("replication factor %d: there are %d nodes, and every partition is "+
			"on all of them", rf, len(cl.voters))}
	}
	if t.NumPartitions == -1 {
		return f.opts.Partitions, nil
	}
	return f.checkWidth(int64(t.NumPartitions), nil)
}

// checkWidth holds a width to its bounds; err goes before.
func (f *Frontend) checkWidth(n int64, err error) (int32, error) {
	switch {
	case err != nil:
		return 0, err
	case n < 1:
		return 0, &fault{kerr.InvalidPartitions, fmt.Sprintf("%d partitions: at least 1 is needed, or -1 for %d", n, f.opts.Partitions)}
	case n > int64(f.opts.MaxPartitions):
		return 0, &fault{kerr.InvalidPartitions, fmt.Sprintf("%d partitions: at most %d here", n, f.opts.MaxPartitions)}
	}
	return int32(n), nil
}

// checkAssignments tells what is wrong with assigned replicas; which of the nodes they are changes nothing, because
// every node has every partition.
func (cl *cluster) checkAssignments(all [][]int32) error {
	for _, replicas := range all {
		if len(replicas) == 0 || len(replicas) != len(all[0]) {
			return &fault{kerr.InvalidReplicaAssignment, "every partition needs replicas, and as many as the others"}
		}
		seen := map[int32]bool{}
		for _, id := range replicas {
			known := false
			for _, v := range cl.voters {
				known = known || v == id
			}
			if !known || seen[id] {
				return &fault{kerr.InvalidReplicaAssignment, fmt.Sprintf("broker %d is unknown or there twice", id)}
			}
			seen[id] = true
		}
	}
	return nil
}
