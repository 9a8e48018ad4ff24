package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// AlterPartitionReassignments, 0 to 1: every node has every partition. An assignment to exactly the nodes is what is
// already; any other is refused; there is never one to cancel.
func alterReassignmentsAPI() *api {
	return &api{key: 45, min: 0, max: 1, level: auth.LevelAdmin, handle: alterReassignments, refuse: func(r *request, code int16) kmsg.Response {
		resp := r.req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
		resp.ErrorCode = code
		return resp
	}}
}

func alterReassignments(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.AlterPartitionAssignmentsRequest)
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	cl := c.cluster()
	for _, asked := range req.Topics {
		row := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		row.Topic = asked.Topic
		t, err := c.f.topic(ctx, c.caller(), asked.Topic)
		for _, p := range asked.Partitions {
			out := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			out.Partition = p.Partition
			bad := err
			switch {
			case bad != nil:
			case !t.has(p.Partition):
				bad = kerr.UnknownTopicOrPartition
			case p.Replicas == nil:
				bad = &fault{kerr.NoReassignmentInProgress, "no partition is being moved"}
			default:
				if bad = cl.checkAssignments([][]int32{p.Replicas}); bad == nil && len(p.Replicas) != len(cl.voters) {
					bad = &fault{kerr.InvalidReplicaAssignment, "every node has every partition"}
				}
			}
			out.ErrorCode, out.ErrorMessage = controllerCode(bad), textOf(bad)
			row.Partitions = append(row.Partitions, out)
		}
		resp.Topics = append(resp.Topics, row)
	}
	return resp, nil
}
