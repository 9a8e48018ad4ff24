package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// ConsumerGroupHeartbeat, 0 to 1: all that members of KIP-848 say to their coordinator, and hear from it. v1 has member ids
// that clients make, and regular expressions of topics.
func consumerGroupHeartbeatAPI() *api {
	return &api{key: 68, min: 0, max: 1, level: auth.LevelReadOnly, denied: kerr.GroupAuthorizationFailed.Code, handle: consumerGroupHeartbeat,
		refuse: refuseConsumerHeartbeat}
}

func refuseConsumerHeartbeat(r *request, code int16) kmsg.Response {
	resp := r.req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	resp.ErrorCode = code
	return resp
}

func consumerGroupHeartbeat(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ConsumerGroupHeartbeatRequest)
	k, code := c.groupKey(req.Group)
	if code != 0 {
		return refuseConsumerHeartbeat(r, code), nil
	}
	return c.f.groups.ConsumerHeartbeat(ctx, k, c.member(r), req), nil
}
