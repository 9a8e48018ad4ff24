package ceiling

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Keys of requests, and the error codes that are answered.
const (
	produce        = 0
	fetch          = 1
	listOffsets    = 2
	metadata       = 3
	apiVersions    = 18
	createTopics   = 19
	initProducerID = 22

	errOffsetOutOfRange    = 1
	errCorruptMessage      = 2
	errUnknownTopic        = 3
	errUnsupportedVersion  = 35
	errTopicExists         = 36
	errInvalidPartitions   = 37
	errSessionNotFound     = 70
	errInvalidSessionEpoch = 71
)

// versions are what is answered: from the lowest that a client of today sends to the last that names topics.
var versions = map[int16]struct{ min, max int16 }{
	produce: {3, 11}, fetch: {4, 12}, listOffsets: {1, 7}, metadata: {0, 9}, apiVersions: {0, 4},
	createTopics: {0, 6}, initProducerID: {0, 4},
}

func advertised() []kmsg.ApiVersionsResponseApiKey {
	out := make([]kmsg.ApiVersionsResponseApiKey, 0, len(versions))
	for key, v := range versions {
		out = append(out, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MinVersion: v.min, MaxVersion: v.max})
	}
	return out
}

// handle carries a request out; nil when no answer is due.
func (s *Server) handle(req kmsg.Request) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.ProduceRequest:
		resp := s.store.produce(req)
		if req.Acks == 0 {
			return nil
		}
		return resp
	case *kmsg.FetchRequest:
		return s.fetch(req)
	case *kmsg.ListOffsetsRequest:
		return s.store.listOffsets(req)
	case *kmsg.MetadataRequest:
		return s.metadata(req)
	case *kmsg.CreateTopicsRequest:
		return s.createTopics(req)
	case *kmsg.InitProducerIDRequest:
		resp := kmsg.NewInitProducerIDResponse()
		resp.ProducerID = s.store.producerID()
		return &resp
	}
	resp := kmsg.NewApiVersionsResponse()
	resp.ApiKeys = advertised()
	return &resp
}

func (s *Server) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	resp := kmsg.NewMetadataResponse()
	resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: s.host, Port: s.port}}
	resp.ControllerID = 1
	one := func(name string) {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic = kmsg.StringPtr(name)
		width := s.store.width(name)
		if width == 0 {
			t.ErrorCode = errUnknownTopic
		}
		replicas := []int32{1}
		for i := range width {
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR = int32(i), 1, 0, replicas, replicas
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	if req.Topics == nil {
		for _, name := range s.store.names() {
			one(name)
		}
	}
	for _, t := range req.Topics {
		if t.Topic != nil {
			one(*t.Topic)
		}
	}
	return &resp
}

func (s *Server) createTopics(req *kmsg.CreateTopicsRequest) kmsg.Response {
	resp := kmsg.NewCreateTopicsResponse()
	for _, t := range req.Topics {
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic = t.Topic
		switch {
		case t.NumPartitions < 1 || int(t.NumPartitions) > s.o.PartitionsMax:
			out.ErrorCode = errInvalidPartitions
		case !s.store.create(t.Topic, int(t.NumPartitions)):
			out.ErrorCode = errTopicExists
		}
		out.NumPartitions, out.ReplicationFactor = t.NumPartitions, 1
		resp.Topics = append(resp.Topics, out)
	}
	return &resp
}
