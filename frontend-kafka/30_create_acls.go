package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// CreateAcls, 1 to 3: each is refused.
func createACLsAPI() *api {
	return &api{key: 30, min: 1, max: 3, level: auth.LevelPublic, handle: func(_ context.Context, _ *conn, r *request) (kmsg.Response, error) {
		resp := r.req.ResponseKind().(*kmsg.CreateACLsResponse)
		for range r.req.(*kmsg.CreateACLsRequest).Creations {
			resp.Results = append(resp.Results, kmsg.CreateACLsResponseResult{ErrorCode: kerr.SecurityDisabled.Code,
				ErrorMessage: kmsg.StringPtr(noACLs)})
		}
		return resp, nil
	}}
}
