package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// DeleteGroups, 0 to 2: groups without members go, with their positions on every queue, also those of native consumers.
func deleteGroupsAPI() *api {
	return &api{key: 42, min: 0, max: 2, level: auth.LevelAdmin, denied: kerr.GroupAuthorizationFailed.Code, handle: deleteGroups,
		refuse: func(r *request, code int16) kmsg.Response {
			req := r.req.(*kmsg.DeleteGroupsRequest)
			return deletedGroups(req, func(string) int16 { return code })
		}}
}

func deletedGroups(req *kmsg.DeleteGroupsRequest, one func(group string) int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	for _, name := range req.Groups {
		row := kmsg.NewDeleteGroupsResponseGroup()
		row.Group, row.ErrorCode = name, one(name)
		resp.Groups = append(resp.Groups, row)
	}
	return resp
}

func deleteGroups(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	native := c.f.nativeGroups(ctx, c.caller())
	return deletedGroups(r.req.(*kmsg.DeleteGroupsRequest), func(name string) int16 {
		k, code := c.groupKey(name)
		if code != 0 {
			return code
		}
		return c.f.groups.Delete(ctx, k, func() (bool, error) { return native(name) })
	}), nil
}
