package frontendkafka

import (
	"context"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// DescribeCluster, 0 to 2: brokers and the one that leads. v1 can ask for controllers, which have no address of their
// own here; v2 tells of fenced brokers, of which there are none.
func describeClusterAPI() *api {
	return &api{key: 60, min: 0, max: 2, level: auth.LevelPublic, handle: describeCluster}
}

// brokersEndpoint is the kind of address that clients may ask for.
const brokersEndpoint = 1

func describeCluster(_ context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeClusterRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.ClusterID, resp.ClusterAuthorizedOperations, resp.EndpointType = c.f.opts.ClusterID, math.MinInt32, brokersEndpoint
	if req.Version >= 1 && req.EndpointType != brokersEndpoint {
		resp.ErrorCode = kerr.MismatchedEndpointType.Code
		resp.ErrorMessage = kmsg.StringPtr("this listener is one of brokers")
		return resp, nil
	}
	cl := c.cluster()
	resp.ControllerID = cl.controller
	for _, b := range cl.brokers {
		resp.Brokers = append(resp.Brokers, kmsg.DescribeClusterResponseBroker{NodeID: b.id, Host: b.host, Port: b.port, Rack: b.rack})
	}
	return resp, nil
}
