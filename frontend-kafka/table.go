package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// handler carries out a request and gives its answer. A nil answer without an error is none (acks=0). An *engine.Error
// becomes the answer's code by way of the row's refuse; any other error closes the connection with a line in the log.
//
// ctx ends when the connection is cut. Calls that only wait use c.waiting, which also ends with a hang-up and when the
// node stops: they then answer with what there is. The request's byte slices may be kept.
type handler func(ctx context.Context, c *conn, r *request) (kmsg.Response, error)

// api is one row of the table.
type api struct {
	key int16
	// min and max are the versions served. told is the lowest one that ApiVersions tells where that is another.
	min, max int16
	told     *int16
	// level is what the client's roles must satisfy, denied the code when they do not.
	level  auth.Level
	denied int16
	handle handler
	// refuse makes an answer that has one code everywhere; nil closes the connection instead.
	refuse func(r *request, code int16) kmsg.Response
	// early requests are answered before the client has authenticated.
	early bool
}

// table is every API key that is served; what is not here is not advertised. Rows are in the order of their keys, one
// line each, and their files hold them.
func table() []*api {
	return []*api{
		produceAPI(),
		fetchAPI(),
		listOffsetsAPI(),
		metadataAPI(),
		offsetCommitAPI(),
		offsetFetchAPI(),
		findCoordinatorAPI(),
		joinGroupAPI(),
		heartbeatAPI(),
		leaveGroupAPI(),
		syncGroupAPI(),
		describeGroupsAPI(),
		listGroupsAPI(),
		saslHandshakeAPI(),
		apiVersionsAPI(),
		createTopicsAPI(),
		deleteTopicsAPI(),
		deleteRecordsAPI(),
		initProducerIDAPI(),
		offsetForLeaderEpochAPI(),
		addPartitionsToTxnAPI(),
		addOffsetsToTxnAPI(),
		endTxnAPI(),
		txnOffsetCommitAPI(),
		describeACLsAPI(),
		createACLsAPI(),
		deleteACLsAPI(),
		describeConfigsAPI(),
		alterConfigsAPI(),
		describeLogDirsAPI(),
		saslAuthenticateAPI(),
		createPartitionsAPI(),
		deleteGroupsAPI(),
		electLeadersAPI(),
		incrementalAlterConfigsAPI(),
		alterReassignmentsAPI(),
		listReassignmentsAPI(),
		offsetDeleteAPI(),
		describeQuotasAPI(),
		alterQuotasAPI(),
		describeUsersAPI(),
		alterUsersAPI(),
		describeQuorumAPI(),
		updateFeaturesAPI(),
		describeClusterAPI(),
		describeProducersAPI(),
		describeTransactionsAPI(),
		listTransactionsAPI(),
		consumerGroupHeartbeatAPI(),
		consumerGroupDescribeAPI(),
		listConfigResourcesAPI(),
		describeTopicPartitionsAPI(),
	}
}

// byKey makes the rows findable. Two rows of one key are a mistake that no client should meet.
func byKey(rows []*api) map[int16]*api {
	m := make(map[int16]*api, len(rows))
	for _, a := range rows {
		if m[a.key] != nil || a.handle == nil || a.min > a.max {
			panic("frontend-kafka: bad row of key " + kmsg.NameForKey(a.key))
		}
		m[a.key] = a
	}
	return m
}

// authorizationCode is the code of a client that may not.
func authorizationCode(a *api) int16 {
	if a.denied != 0 {
		return a.denied
	}
	return kerr.ClusterAuthorizationFailed.Code
}
