package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// ListPartitionReassignments, 0: no partition is ever being moved.
func listReassignmentsAPI() *api {
	return &api{key: 46, min: 0, max: 0, level: auth.LevelReadOnly,
		handle: func(_ context.Context, _ *conn, r *request) (kmsg.Response, error) { return r.req.ResponseKind(), nil },
		refuse: func(r *request, code int16) kmsg.Response {
			resp := r.req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
			resp.ErrorCode = code
			return resp
		}}
}
