package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

const noACLs = "there are no access control lists here: what a client may do is said by its token or key"

// DescribeAcls, 1 to 3: there are none.
func describeACLsAPI() *api {
	return &api{key: 29, min: 1, max: 3, level: auth.LevelPublic, handle: func(_ context.Context, _ *conn, r *request) (kmsg.Response, error) {
		resp := r.req.ResponseKind().(*kmsg.DescribeACLsResponse)
		resp.ErrorCode, resp.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noACLs)
		return resp, nil
	}}
}
