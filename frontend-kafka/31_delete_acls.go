package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// DeleteAcls, 1 to 3: each is refused.
func deleteACLsAPI() *api {
	return &api{key: 31, min: 1, max: 3, level: auth.LevelPublic, handle: func(_ context.Context, _ *conn, r *request) (kmsg.Response, error) {
		resp := r.req.ResponseKind().(*kmsg.DeleteACLsResponse)
		for range r.req.(*kmsg.DeleteACLsRequest).Filters {
			resp.Results = append(resp.Results, kmsg.DeleteACLsResponseResult{ErrorCode: kerr.SecurityDisabled.Code,
				ErrorMessage: kmsg.StringPtr(noACLs)})
		}
		return resp, nil
	}}
}
