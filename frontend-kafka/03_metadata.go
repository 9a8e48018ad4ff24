package frontendkafka

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
)

// Metadata, 0 to 13: brokers, topics and their partitions. v1 null topics mean all, before that an empty list does; v4
// can decline that unknown topics are created; v10 adds ids, v12 asks by id, v13 has a code of its own for the whole.
func metadataAPI() *api {
	return &api{key: 3, min: 0, max: 13, level: auth.LevelPublic, handle: metadata}
}

const (
	// autoCreateMax is how many unknown topics one request may create; the rest is told to try again.
	autoCreateMax = 100
	// listedMax bounds the partitions of an answer, about 50 bytes each: one frame.
	listedMax = 1_500_000
	// listedBytes is what a partition takes in an answer, but for its replicas.
	listedBytes = 30
)

func metadata(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.MetadataRequest)
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	m := metadataCall{c: c, who: c.caller(), req: req, resp: resp, found: map[int]*topic{}}
	if req.Topics == nil || r.version == 0 && len(req.Topics) == 0 {
		err := c.f.eachTopic(ctx, m.who, func(t *topic) bool { return m.add(t) })
		if err == nil && m.listed > listedMax {
			err = errors.New("there are too many partitions for one answer: name topics, or page with DescribeTopicPartitions")
		}
		return m.answer(ctx, err)
	}
	if req.Topics = once(req.Topics, metadataName); len(req.Topics) > 0 {
		c.f.freshen(ctx, m.who)
	}
	for i := range req.Topics {
		if !m.named(ctx, &req.Topics[i]) {
			return nil, errors.New("the named topics have too many partitions for one answer")
		}
	}
	return m.answer(ctx, nil)
}

// answer tells who is there, and lists the partitions of the topics that were found, once there is room for them. Without it
// clients are told to ask again.
//
// INVARIANT: who leads is asked after topics were looked for: that is how a node learns which raft group a tenant is in that is
// new to it. What it knew before is the leader and the term of others, and clients that were told a later term never
// believe an earlier one (TestLeaderOfNewTenant).
func (m *metadataCall) answer(ctx context.Context, err error) (kmsg.Response, error) {
	if err != nil {
		return nil, err
	}
	m.epoch, m.cluster = m.c.f.leaderEpoch(m.who.Tenant), m.c.cluster()
	m.cluster.fill(m.resp, m.c.f.opts.ClusterID)
	full := m.c.room(ctx, int64(m.listed)*int64(partitionRoom+replicaRoom*len(m.cluster.voters)))
	if errors.Is(full, errHungUp) {
		return nil, full
	}
	if full == nil && len(m.c.listed) > 0 {
		m.c.out = slices.Grow(m.c.out, m.listed*(listedBytes+replicaRoom*len(m.cluster.voters)))
	}
	for at, found := range m.found {
		t := &m.resp.Topics[at]
		if full != nil {
			t.ErrorCode = kerr.LeaderNotAvailable.Code
			continue
		}
		t.Partitions = make([]kmsg.MetadataResponseTopicPartition, found.width)
		for i := range t.Partitions {
			p := &t.Partitions[i]
			p.Default()
			p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR = int32(i), m.cluster.controller, m.epoch, m.cluster.voters, m.cluster.inSync
			p.ErrorCode = m.cluster.leaderless()
		}
	}
	return m.resp, nil
}

// fill tells who is there.
func (cl *cluster) fill(resp *kmsg.MetadataResponse, id string) {
	for _, b := range cl.brokers {
		row := kmsg.NewMetadataResponseBroker()
		row.NodeID, row.Host, row.Port, row.Rack = b.id, b.host, b.port, b.rack
		resp.Brokers = append(resp.Brokers, row)
	}
	resp.ClusterID = &id
	resp.ControllerID = cl.controller
	resp.AuthorizedOperations = math.MinInt32
}

// metadataCall is one answer in the making.
type metadataCall struct {
	c       *conn
	who     engine.Caller
	req     *kmsg.MetadataRequest
	resp    *kmsg.MetadataResponse
	created int
	// epoch and cluster are filled in at the end.
	epoch   int32
	cluster cluster
	// found are the topics by their places in the answer; listed counts their partitions.
	found  map[int]*topic
	listed int
}

// named answers one topic of the request; false when that is more than an answer takes.
func (m *metadataCall) named(ctx context.Context, t *kmsg.MetadataRequestTopic) bool {
	if t.TopicID != ([16]byte{}) {
		found, err := m.c.f.topicByID(ctx, m.who, t.TopicID)
		if err != nil {
			m.fail(nil, t.TopicID, err)
			return true
		}
		return m.add(found)
	}
	if t.Topic == nil {
		m.fail(nil, t.TopicID, kerr.InvalidRequest)
		return true
	}
	name := *t.Topic
	found, err := m.c.f.topic(ctx, m.who, name)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		found, err = m.create(ctx, name)
	}
	if err != nil {
		m.fail(&name, t.TopicID, err)
		return true
	}
	return m.add(found)
}

// topicRef is a topic as a request names it.
type topicRef struct {
	name  string
	named bool
	id    [16]byte
}

func metadataName(t *kmsg.MetadataRequestTopic) topicRef {
	if t.Topic == nil {
		return topicRef{id: t.TopicID}
	}
	return topicRef{*t.Topic, true, t.TopicID}
}

// create makes an unknown topic where the request, the node and the client's roles allow it.
func (m *metadataCall) create(ctx context.Context, name string) (*topic, error) {
	asked := m.req.Version < 4 || m.req.AllowAutoTopicCreation
	switch {
	case !legalTopic(name) && len(name) >= 2 && name[:2] == "__":
		return nil, kerr.UnknownTopicOrPartition
	case !legalTopic(name):
		return nil, kerr.InvalidTopicException
	case !asked || m.c.f.opts.NoAutoCreate || !m.c.may(auth.LevelWriteOnly):
		return nil, kerr.UnknownTopicOrPartition
	case m.created >= autoCreateMax:
		return nil, kerr.LeaderNotAvailable
	}
	m.created++
	ctx, cancel := within(ctx, 0)
	defer cancel()
	t, err := m.c.f.createTopic(ctx, m.who, name, m.c.f.opts.Partitions)
	if errors.Is(err, kerr.TopicAlreadyExists) { // somebody was faster
		return m.c.f.topic(ctx, m.who, name)
	}
	return t, err
}

func (m *metadataCall) fail(name *string, id [16]byte, err error) {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID, t.ErrorCode = name, id, codeOf(err)
	if name == nil && m.req.Version < 12 {
		t.Topic = kmsg.StringPtr("")
	}
	m.resp.Topics = append(m.resp.Topics, t)
}

// add answers with a topic, whose partitions come later; false when there are too many.
func (m *metadataCall) add(found *topic) bool {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID, t.IsInternal = &found.name, found.id, found.internal()
	t.AuthorizedOperations = math.MinInt32
	m.found[len(m.resp.Topics)] = found
	m.resp.Topics = append(m.resp.Topics, t)
	m.listed += int(found.width)
	return m.listed <= listedMax
}
