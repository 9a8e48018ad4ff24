package main

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// testCase is a request, made for each side: topics have other ids there.
type testCase struct {
	name string
	make func(s *side) kmsg.Request
}

// cases are the requests of a key and version. Every key has the plain one, all fields as the protocol's defaults are; it
// comes first, so that cases may change what is there.
func cases(key, version int16) []testCase {
	all := []testCase{{"plain", func(*side) kmsg.Request {
		req := kmsg.RequestForKey(key)
		if d, ok := req.(interface{ Default() }); ok {
			d.Default()
		}
		if p, ok := req.(*kmsg.ProduceRequest); ok {
			p.Acks = -1 // else there is no answer to compare
		}
		return req
	}}}
	add := func(name string, build func(s *side) kmsg.Request) { all = append(all, testCase{name, build}) }
	for _, more := range []func(int16, int16, func(string, func(*side) kmsg.Request)){dataCases, groupCases, wholeGroupCases, memberCases,
		topicCases, txnCases, adminCases} {
		more(key, version, add)
	}
	return all
}

type adder = func(string, func(*side) kmsg.Request)

// named is a topic by name or, from a version on, by id.
func (s *side) named(topic string, byID bool) (string, [16]byte) {
	switch {
	case !byID:
		return topic, [16]byte{}
	case topic == topicThere:
		return topic, s.id
	}
	return topic, [16]byte{1, 2, 3}
}

// dataCases are about records and offsets.
func dataCases(key, version int16, add adder) {
	for _, at := range []struct {
		name, topic string
		partition   int32
	}{{"there", topicThere, 0}, {"empty", topicThere, 1}, {"beyond", topicThere, 2}, {"unknown", nowhere, 0}} {
		switch kmsg.Key(key) {
		case kmsg.Produce:
			add("garbage-"+at.name, func(s *side) kmsg.Request {
				return produceOf(s, version, at.topic, at.partition, -1, []byte("no batch"))
			})
			add("acks-"+at.name, func(s *side) kmsg.Request { return produceOf(s, version, at.topic, at.partition, 3, nil) })
		case kmsg.Fetch:
			for name, offset := range map[string]int64{"start": 0, "end": 3, "past": 4, "negative": -1} {
				add(name+"-"+at.name, func(s *side) kmsg.Request { return fetchOf(s, version, at.topic, at.partition, offset) })
			}
		case kmsg.ListOffsets:
			for name, when := range map[string]int64{"latest": -1, "earliest": -2, "greatest": -3, "first": stamp, "middle": stamp + 1500,
				"after": stamp + 9000} {
				if when == -3 && version < 7 {
					continue
				}
				add(name+"-"+at.name, func(*side) kmsg.Request { return listOf(at.topic, at.partition, when) })
			}
		case kmsg.DeleteRecords:
			add("past-"+at.name, func(*side) kmsg.Request {
				req := kmsg.NewPtrDeleteRecordsRequest()
				req.TimeoutMillis = 1000
				req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: at.topic,
					Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: at.partition, Offset: 99}}}}
				return req
			})
		case kmsg.OffsetForLeaderEpoch:
			add("epoch-"+at.name, func(*side) kmsg.Request {
				req := kmsg.NewPtrOffsetForLeaderEpochRequest()
				p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
				p.Partition, p.LeaderEpoch = at.partition, 1<<30
				req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: at.topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
				return req
			})
		}
	}
}

func produceOf(s *side, version int16, topic string, partition int32, acks int16, records []byte) kmsg.Request {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 1000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = s.named(topic, version >= 13)
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func fetchOf(s *side, version int16, topic string, partition int32, offset int64) kmsg.Request {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MinBytes, req.SessionEpoch = 1<<20, 0, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = s.named(topic, version >= 13)
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func listOf(topic string, partition int32, when int64) kmsg.Request {
	req := kmsg.NewPtrListOffsetsRequest()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, when
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return req
}

// topicCases are about topics and their configuration.
func topicCases(key, version int16, add adder) {
	for _, name := range []string{topicThere, nowhere, "a/b", ""} {
		at := map[string]string{topicThere: "there", nowhere: "unknown", "a/b": "illegal", "": "unnamed"}[name]
		switch kmsg.Key(key) {
		case kmsg.Metadata:
			if version < 4 && name != topicThere { // older versions can not decline that it is made
				continue
			}
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrMetadataRequest()
				req.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(name)}}
				return req
			})
		case kmsg.CreateTopics:
			for what, tune := range map[string]func(*kmsg.CreateTopicsRequestTopic){
				"":          func(*kmsg.CreateTopicsRequestTopic) {},
				"-none":     func(t *kmsg.CreateTopicsRequestTopic) { t.NumPartitions = 0 },
				"-copies":   func(t *kmsg.CreateTopicsRequestTopic) { t.ReplicationFactor = 9 },
				"-no-name":  func(t *kmsg.CreateTopicsRequestTopic) { t.Configs = config("no.such.name", "1") },
				"-no-value": func(t *kmsg.CreateTopicsRequestTopic) { t.Configs = config("cleanup.policy", "shred") },
			} {
				add(at+what, func(*side) kmsg.Request {
					req := kmsg.NewPtrCreateTopicsRequest()
					req.TimeoutMillis, req.ValidateOnly = 1000, true
					t := kmsg.NewCreateTopicsRequestTopic()
					t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, 1
					tune(&t)
					req.Topics = append(req.Topics, t)
					return req
				})
			}
		case kmsg.DeleteTopics:
			if name == topicThere {
				continue
			}
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrDeleteTopicsRequest()
				req.TimeoutMillis, req.TopicNames = 1000, []string{name}
				req.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: kmsg.StringPtr(name)}}
				return req
			})
		case kmsg.CreatePartitions:
			for what, count := range map[string]int32{"-fewer": 1, "-same": 2, "-none": 0} {
				add(at+what, func(*side) kmsg.Request {
					req := kmsg.NewPtrCreatePartitionsRequest()
					req.TimeoutMillis, req.ValidateOnly = 1000, true
					t := kmsg.NewCreatePartitionsRequestTopic()
					t.Topic, t.Count = name, count
					req.Topics = append(req.Topics, t)
					return req
				})
			}
		case kmsg.DescribeTopicPartitions:
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrDescribeTopicPartitionsRequest()
				req.ResponsePartitionLimit, req.Topics = 10, []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: name}}
				return req
			})
		}
	}
}

func config(name, value string) []kmsg.CreateTopicsRequestTopicConfig {
	return []kmsg.CreateTopicsRequestTopicConfig{{Name: name, Value: kmsg.StringPtr(value)}}
}
