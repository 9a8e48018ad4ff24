package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// LeaveGroup, 0 to 5: members of the classic protocol go for good. v3 names several, static ones by their instance ids, v5
// tells why.
func leaveGroupAPI() *api {
	return &api{key: 13, min: 0, max: 5, level: auth.LevelReadOnly, denied: kerr.GroupAuthorizationFailed.Code, handle: leaveGroup,
		refuse: refuseLeave}
}

func refuseLeave(r *request, code int16) kmsg.Response {
	resp := r.req.ResponseKind().(*kmsg.LeaveGroupResponse)
	resp.ErrorCode = code
	return resp
}

func leaveGroup(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.LeaveGroupRequest)
	k, code := c.groupKey(req.Group)
	if code != 0 {
		return refuseLeave(r, code), nil
	}
	return c.f.groups.Leave(ctx, k, req), nil
}
