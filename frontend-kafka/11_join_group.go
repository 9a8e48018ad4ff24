package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// JoinGroup, 0 to 9: a member of the classic protocol joins, and waits for the others. v1 tells the rebalance timeout, v4
// gives new members an id first (KIP-394), v5 has static members (KIP-345), v7 echoes the protocol type, v8 tells why, v9
// lets a leader skip the assignment.
func joinGroupAPI() *api {
	return &api{key: 11, min: 0, max: 9, level: auth.LevelReadOnly, denied: kerr.GroupAuthorizationFailed.Code, handle: joinGroup,
		refuse: func(r *request, code int16) kmsg.Response { return refusedJoin(r, code) }}
}

func refusedJoin(r *request, code int16) *kmsg.JoinGroupResponse {
	req := r.req.(*kmsg.JoinGroupRequest)
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.ErrorCode, resp.Generation, resp.MemberID = code, -1, req.MemberID
	return resp
}

func joinGroup(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.JoinGroupRequest)
	k, code := c.groupKey(req.Group)
	if code != 0 {
		return refusedJoin(r, code), nil
	}
	answer := make(chan *kmsg.JoinGroupResponse, 1)
	c.f.groups.Join(ctx, k, c.member(r), req, func(resp *kmsg.JoinGroupResponse) { answer <- resp })
	resp, err := await(c, answer, func() *kmsg.JoinGroupResponse { return refusedJoin(r, kerr.NotCoordinator.Code) })
	if err != nil {
		return nil, err
	}
	return resp, nil
}
