package frontendkafka

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// FuzzFrame: whatever a client sends is answered or closes its connection; nothing panics and nothing waits for a client
// that has hung up.
func FuzzFrame(f *testing.F) {
	made := records(f, nil, "a", "b")
	for _, a := range table() {
		for _, v := range []int16{a.min, a.max} {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(v)
			fill(req, made)
			f.Add(kmsg.NewRequestFormatter(kmsg.FormatterClientID("c")).AppendRequest(nil, req, 1)[4:])
		}
	}
	f.Add([]byte{0, 18, 0, 99, 0, 0, 0, 1})
	n := start(f, func(o *Options) { o.Listeners[0].SASL = []Mechanism{Plain, ScramSHA256} })
	root := &auth.Principal{Tenant: auth.DefaultTenant, Roles: auth.Admin}
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := newConn(n.f, &n.f.opts.Listeners[0], ours)
		defer c.cancel()
		c.hungUp()
		require.NoError(t, c.identified(root, func(context.Context) (*auth.Principal, error) { return root, nil }))
		if err := c.handle(frame{bytes: b}); err != nil {
			require.NotEmpty(t, err.Error())
		}
	})
}

// fill gives a request something to chew on; made is a record batch.
func fill(req kmsg.Request, made []byte) {
	name := "t"
	switch r := req.(type) {
	case *kmsg.MetadataRequest:
		r.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
		r.AllowAutoTopicCreation = true
	case *kmsg.CreateTopicsRequest:
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, 2, 1
		t.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: retentionMs, Value: kmsg.StringPtr("1500")}}
		r.Topics = append(r.Topics, t)
	case *kmsg.ProduceRequest:
		*r = *produceRequest(r.Version, 1, name, 0, made)
	case *kmsg.FetchRequest:
		*r = *fetchRequest(r.Version, name, 0, 1)
		r.SessionEpoch = 0
	case *kmsg.ListOffsetsRequest:
		r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: 5}, {Timestamp: -1}}}}
	case *kmsg.DeleteRecordsRequest:
		r.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 1}}}}
	case *kmsg.CreatePartitionsRequest:
		r.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 3}}
	case *kmsg.DescribeConfigsRequest:
		r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: aTopic, ResourceName: name}, {ResourceType: aBroker}}
	case *kmsg.AlterConfigsRequest:
		r.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: aTopic, ResourceName: name,
			Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: cleanupPolicy, Value: kmsg.StringPtr("compact")}}}}
	case *kmsg.IncrementalAlterConfigsRequest:
		r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: aTopic, ResourceName: name,
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: cleanupPolicy, Op: 2, Value: kmsg.StringPtr("compact")}}}}
	case *kmsg.DescribeTopicPartitionsRequest:
		r.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: name}}
		r.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: name, Partition: 1}
	case *kmsg.DescribeLogDirsRequest:
		r.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: name, Partitions: []int32{0}}}
	case *kmsg.AlterClientQuotasRequest:
		r.Entries = []kmsg.AlterClientQuotasRequestEntry{{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: &name}},
			Ops: []kmsg.AlterClientQuotasRequestEntryOp{{Key: producerRate, Value: 5}}}}
	case *kmsg.AlterUserSCRAMCredentialsRequest:
		r.Upsertions = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{{Name: name, Mechanism: 1, Iterations: 4096, Salt: []byte("s"),
			SaltedPassword: make([]byte, 32)}}
	case *kmsg.SASLHandshakeRequest:
		r.Mechanism = string(ScramSHA256)
	case *kmsg.SASLAuthenticateRequest:
		r.SASLAuthBytes = []byte("\x00u\x00p")
	}
}
