package main

import "github.com/twmb/franz-go/pkg/kmsg"

// groupCases are about positions of groups and who coordinates them.
func groupCases(key, version int16, add adder) {
	for _, name := range []string{groupThere, nowhere, ""} {
		at := map[string]string{groupThere: "there", nowhere: "unknown", "": "unnamed"}[name]
		switch kmsg.Key(key) {
		case kmsg.OffsetCommit:
			for what, c := range map[string]struct {
				generation int32
				member     string
			}{"nobody": {-1, ""}, "member": {1, "m"}} {
				add(what+"-"+at, func(s *side) kmsg.Request {
					req := kmsg.NewPtrOffsetCommitRequest()
					req.Group, req.Generation, req.MemberID = name, c.generation, c.member
					p := kmsg.NewOffsetCommitRequestTopicPartition()
					p.Partition = 1
					t := kmsg.NewOffsetCommitRequestTopic()
					t.Topic, t.TopicID = s.named(topicThere, version >= 10)
					t.Partitions = append(t.Partitions, p)
					req.Topics = append(req.Topics, t)
					return req
				})
			}
		case kmsg.OffsetFetch:
			add(at, func(s *side) kmsg.Request {
				req := kmsg.NewPtrOffsetFetchRequest()
				req.Group, req.Topics = name, []kmsg.OffsetFetchRequestTopic{{Topic: topicThere, Partitions: []int32{0, 1}}}
				g := kmsg.NewOffsetFetchRequestGroup()
				g.Group = name
				t := kmsg.NewOffsetFetchRequestGroupTopic()
				t.Topic, t.TopicID = s.named(topicThere, version >= 10)
				t.Partitions = []int32{0, 1}
				g.Topics = append(g.Topics, t)
				req.Groups = append(req.Groups, g)
				return req
			})
		case kmsg.FindCoordinator:
			for what, kind := range map[string]int8{"group": 0, "txn": 1, "wrong": 9} {
				add(what+"-"+at, func(*side) kmsg.Request {
					req := kmsg.NewPtrFindCoordinatorRequest()
					req.CoordinatorKey, req.CoordinatorKeys, req.CoordinatorType = name, []string{name}, kind
					return req
				})
			}
		}
	}
}

// wholeGroupCases are about groups as a whole.
func wholeGroupCases(key, _ int16, add adder) {
	for _, name := range []string{groupThere, nowhere, ""} {
		at := map[string]string{groupThere: "there", nowhere: "unknown", "": "unnamed"}[name]
		switch kmsg.Key(key) {
		case kmsg.DescribeGroups:
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrDescribeGroupsRequest()
				req.Groups = []string{name}
				return req
			})
		case kmsg.DeleteGroups:
			if name == groupThere {
				continue
			}
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrDeleteGroupsRequest()
				req.Groups = []string{name}
				return req
			})
		case kmsg.OffsetDelete:
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrOffsetDeleteRequest()
				req.Group = name
				req.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: topicThere, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 1}}}}
				return req
			})
		case kmsg.ConsumerGroupDescribe:
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrConsumerGroupDescribeRequest()
				req.Groups = []string{name}
				return req
			})
		}
	}
}

// memberCases are about members that a group does not know.
func memberCases(key, version int16, add adder) {
	for _, name := range []string{groupThere, nowhere, ""} {
		at := map[string]string{groupThere: "there", nowhere: "unknown", "": "unnamed"}[name]
		switch kmsg.Key(key) {
		case kmsg.JoinGroup:
			for what, session := range map[string]int32{"short": 1, "stranger": 10_000} {
				add(what+"-"+at, func(*side) kmsg.Request {
					req := kmsg.NewPtrJoinGroupRequest()
					req.Group, req.MemberID, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = name, "m", "consumer", session, 10_000
					req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
					return req
				})
			}
		case kmsg.SyncGroup:
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrSyncGroupRequest()
				req.Group, req.MemberID, req.Generation = name, "m", 1
				return req
			})
		case kmsg.Heartbeat:
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrHeartbeatRequest()
				req.Group, req.MemberID, req.Generation = name, "m", 1
				return req
			})
		case kmsg.LeaveGroup:
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrLeaveGroupRequest()
				req.Group, req.MemberID = name, "m"
				one := kmsg.NewLeaveGroupRequestMember()
				one.MemberID = "m"
				req.Members = append(req.Members, one)
				return req
			})
		case kmsg.ConsumerGroupHeartbeat:
			for what, epoch := range map[string]int32{"member": 5, "leaving": -1, "wrong": -7} {
				add(what+"-"+at, func(*side) kmsg.Request {
					req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
					req.Group, req.MemberID, req.MemberEpoch = name, "m", epoch
					return req
				})
			}
		}
	}
}

// txnCases are about producers that nobody knows.
func txnCases(key, _ int16, add adder) {
	switch kmsg.Key(key) {
	case kmsg.InitProducerID:
		add("idempotent", func(*side) kmsg.Request { return kmsg.NewPtrInitProducerIDRequest() })
		add("no-time", func(*side) kmsg.Request {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.TransactionalID = kmsg.StringPtr("t")
			return req
		})
	case kmsg.AddPartitionsToTxn:
		add("unknown", func(*side) kmsg.Request {
			req := kmsg.NewPtrAddPartitionsToTxnRequest()
			req.TransactionalID, req.ProducerID = nowhere, 99
			req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topicThere, Partitions: []int32{0}}, {Topic: nowhere, Partitions: []int32{0}}}
			return req
		})
	case kmsg.AddOffsetsToTxn:
		add("unknown", func(*side) kmsg.Request {
			req := kmsg.NewPtrAddOffsetsToTxnRequest()
			req.TransactionalID, req.ProducerID, req.Group = nowhere, 99, groupThere
			return req
		})
	case kmsg.EndTxn:
		add("unknown", func(*side) kmsg.Request {
			req := kmsg.NewPtrEndTxnRequest()
			req.TransactionalID, req.ProducerID = nowhere, 99
			return req
		})
	case kmsg.TxnOffsetCommit:
		add("unknown", func(*side) kmsg.Request {
			req := kmsg.NewPtrTxnOffsetCommitRequest()
			req.TransactionalID, req.ProducerID, req.Group, req.Generation = nowhere, 99, groupThere, -1
			req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: topicThere, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{}}}}
			return req
		})
	case kmsg.DescribeTransactions:
		add("unknown", func(*side) kmsg.Request {
			req := kmsg.NewPtrDescribeTransactionsRequest()
			req.TransactionalIDs = []string{nowhere, ""}
			return req
		})
	case kmsg.DescribeProducers:
		for name, topic := range map[string]string{"there": topicThere, "unknown": nowhere} {
			add(name, func(*side) kmsg.Request {
				req := kmsg.NewPtrDescribeProducersRequest()
				req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{0, 7}}}
				return req
			})
		}
	}
}

// adminCases are about the rest of administration.
func adminCases(key, _ int16, add adder) {
	for _, name := range []string{topicThere, nowhere} {
		at := map[string]string{topicThere: "there", nowhere: "unknown"}[name]
		switch kmsg.Key(key) {
		case kmsg.DescribeConfigs:
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrDescribeConfigsRequest()
				req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name,
					ConfigNames: []string{"cleanup.policy", "retention.ms", "max.message.bytes", "no.such.name"}}}
				return req
			})
		case kmsg.AlterConfigs:
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrAlterConfigsRequest()
				req.ValidateOnly = true
				req.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name,
					Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "no.such.name", Value: kmsg.StringPtr("1")}}}}
				return req
			})
		case kmsg.IncrementalAlterConfigs:
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrIncrementalAlterConfigsRequest()
				req.ValidateOnly = true
				req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name,
					Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: kmsg.StringPtr("soon")}}}}
				return req
			})
		case kmsg.ElectLeaders:
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrElectLeadersRequest()
				req.TimeoutMillis = 1000
				req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: name, Partitions: []int32{0}}}
				return req
			})
		case kmsg.DescribeLogDirs:
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrDescribeLogDirsRequest()
				req.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: name, Partitions: []int32{0}}}
				return req
			})
		case kmsg.DescribeUserSCRAMCredentials:
			add(at, func(*side) kmsg.Request {
				req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
				req.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{{Name: name}}
				return req
			})
		}
	}
}
