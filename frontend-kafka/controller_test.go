package frontendkafka

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/format"
)

// leaderless is a node of a cluster that has no leader: nothing is changed through it and, while blind, no topic is looked up.
type leaderless struct {
	engine.Engine
	blind *atomic.Bool
}

var errLeaderless = &engine.Error{Code: engine.CodeNoLeader, Message: "no leader"}

func (e leaderless) Catalog() engine.Catalog { return leaderlessCatalog{e.Engine.Catalog(), e.blind} }
func (e leaderless) Records() engine.Records { return leaderlessRecords{e.Engine.Records()} }

type leaderlessCatalog struct {
	engine.Catalog
	blind *atomic.Bool
}

func (c leaderlessCatalog) Topic(ctx context.Context, who engine.Caller, queue string) (engine.QueueInfo, error) {
	if c.blind.Load() {
		return engine.QueueInfo{}, errLeaderless
	}
	return c.Catalog.Topic(ctx, who, queue)
}

func (leaderlessCatalog) Configure(context.Context, engine.Caller, engine.ConfigureRequest) (engine.QueueInfo, error) {
	return engine.QueueInfo{}, errLeaderless
}

func (leaderlessCatalog) DeleteQueue(context.Context, engine.Caller, string) (bool, error) {
	return false, errLeaderless
}

func (leaderlessCatalog) DeleteLife(context.Context, engine.Caller, string, format.QueueID) (bool, error) {
	return false, errLeaderless
}

func (leaderlessCatalog) CatchUp(context.Context, engine.Caller) error { return errLeaderless }

type leaderlessRecords struct{ engine.Records }

func (leaderlessRecords) DeleteRecords(context.Context, engine.Caller, []engine.FetchAt) ([]engine.RecordOffset, error) {
	return nil, errLeaderless
}

type leaderlessRows struct{ engine.AdminStore }

func (leaderlessRows) SetAdmin(context.Context, format.Tenant, engine.AdminChange) (bool, error) {
	return false, errLeaderless
}

// administration is what administrators ask of the controller about topic t, each request once, and the code of its answer.
var administration = map[string]func(c *raw) int16{
	"CreateTopics": func(c *raw) int16 {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.Topics = 7, []kmsg.CreateTopicsRequestTopic{{Topic: "new", NumPartitions: 1, ReplicationFactor: 1}}
		return c.ask(req).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode
	},
	"DeleteTopics": func(c *raw) int16 {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.Topics = 6, []kmsg.DeleteTopicsRequestTopic{{Topic: kmsg.StringPtr("t")}}
		return c.ask(req).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode
	},
	"CreatePartitions": func(c *raw) int16 {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version, req.Topics = 3, []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 9}}
		return c.ask(req).(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode
	},
	"AlterConfigs": func(c *raw) int16 {
		req := kmsg.NewPtrAlterConfigsRequest()
		req.Version, req.Resources = 2, []kmsg.AlterConfigsRequestResource{{ResourceType: aTopic, ResourceName: "t",
			Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: kmsg.StringPtr("60000")}}}}
		return c.ask(req).(*kmsg.AlterConfigsResponse).Resources[0].ErrorCode
	},
	"IncrementalAlterConfigs": func(c *raw) int16 {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version, req.Resources = 1, []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: aTopic, ResourceName: "t",
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "segment.ms", Value: kmsg.StringPtr("60000")}}}}
		return c.ask(req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
	},
	"AlterClientQuotas": func(c *raw) int16 {
		req := kmsg.NewPtrAlterClientQuotasRequest()
		req.Version, req.Entries = 1, []kmsg.AlterClientQuotasRequestEntry{{
			Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: kmsg.StringPtr("u")}},
			Ops:    []kmsg.AlterClientQuotasRequestEntryOp{{Key: producerRate, Value: 5}}}}
		return c.ask(req).(*kmsg.AlterClientQuotasResponse).Entries[0].ErrorCode
	},
	"AlterUserScramCredentials": func(c *raw) int16 {
		req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		req.Upsertions = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{{Name: "u", Mechanism: 1, Iterations: 4096,
			Salt: []byte("salt"), SaltedPassword: make([]byte, 32)}}
		return c.ask(req).(*kmsg.AlterUserSCRAMCredentialsResponse).Results[0].ErrorCode
	},
}

// administrationOfTopics is what only looks a topic up.
var administrationOfTopics = map[string]func(c *raw) int16{
	"ElectLeaders": func(c *raw) int16 {
		req := kmsg.NewPtrElectLeadersRequest()
		req.Version, req.Topics = 2, []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		return c.ask(req).(*kmsg.ElectLeadersResponse).Topics[0].Partitions[0].ErrorCode
	},
	"AlterPartitionReassignments": func(c *raw) int16 {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "t",
			Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{1}}}}}
		return c.ask(req).(*kmsg.AlterPartitionAssignmentsResponse).Topics[0].Partitions[0].ErrorCode
	},
}

// Goal: while no node leads, what Kafka has its controller do answers NOT_CONTROLLER, upon which clients look for it and ask again; what
// is of a partition's leader still answers that it is not here.
func TestAdministrationWithoutLeader(t *testing.T) {
	var blind atomic.Bool
	n := start(t, func(o *Options) { o.Engine, o.Rows = leaderless{o.Engine, &blind}, leaderlessRows{o.Rows} })
	_, err := n.engine.Catalog().Configure(t.Context(), n.caller(), engine.ConfigureRequest{Queue: "t"})
	require.NoError(t, err)
	c := n.dial()
	gone := kmsg.NewPtrDeleteRecordsRequest()
	gone.Version = 2
	gone.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 0, Offset: 0}}}}
	for _, sees := range []bool{true, false} {
		blind.Store(!sees)
		for name, code := range administration {
			require.Equal(t, kerr.NotController.Code, code(c), name)
		}
		require.Equal(t, kerr.NotLeaderForPartition.Code, c.ask(gone).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode)
	}
	for name, code := range administrationOfTopics {
		require.Equal(t, kerr.NotController.Code, code(c), name)
	}
	require.Equal(t, kerr.NotController.Code, controllerCode(&engine.Error{Code: engine.CodeClosed}))
	require.Equal(t, kerr.RequestTimedOut.Code, controllerCode(&engine.Error{Code: engine.CodeTimeout}))
	require.Zero(t, controllerCode(nil))
}
