package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// Heartbeat, 0 to 4: a member of the classic protocol is alive, and learns that the group rebalances. v3 has static
// members.
func heartbeatAPI() *api {
	return &api{key: 12, min: 0, max: 4, level: auth.LevelReadOnly, denied: kerr.GroupAuthorizationFailed.Code, handle: heartbeat,
		refuse: refuseHeartbeat}
}

func refuseHeartbeat(r *request, code int16) kmsg.Response {
	resp := r.req.ResponseKind().(*kmsg.HeartbeatResponse)
	resp.ErrorCode = code
	return resp
}

func heartbeat(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.HeartbeatRequest)
	k, code := c.groupKey(req.Group)
	if code != 0 {
		return refuseHeartbeat(r, code), nil
	}
	return c.f.groups.Heartbeat(ctx, k, req), nil
}
