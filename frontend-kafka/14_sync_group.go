package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// SyncGroup, 0 to 5: the leader of a generation tells the assignment, the others wait for theirs. v3 has static members, v5
// says for which protocol, which is checked.
func syncGroupAPI() *api {
	return &api{key: 14, min: 0, max: 5, level: auth.LevelReadOnly, denied: kerr.GroupAuthorizationFailed.Code, handle: syncGroup,
		refuse: func(r *request, code int16) kmsg.Response { return refusedSync(r, code) }}
}

func refusedSync(r *request, code int16) *kmsg.SyncGroupResponse {
	resp := r.req.ResponseKind().(*kmsg.SyncGroupResponse)
	resp.ErrorCode = code
	return resp
}

func syncGroup(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.SyncGroupRequest)
	k, code := c.groupKey(req.Group)
	if code != 0 {
		return refusedSync(r, code), nil
	}
	answer := make(chan *kmsg.SyncGroupResponse, 1)
	c.f.groups.Sync(ctx, k, req, func(resp *kmsg.SyncGroupResponse) { answer <- resp })
	resp, err := await(c, answer, func() *kmsg.SyncGroupResponse { return refusedSync(r, kerr.NotCoordinator.Code) })
	if err != nil {
		return nil, err
	}
	return resp, nil
}
