package frontendkafka

import (
	"context"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// ConsumerGroupDescribe, 0 to 1: state and members of groups of KIP-848. v1 tells which members speak the classic protocol.
func consumerGroupDescribeAPI() *api {
	return &api{key: 69, min: 0, max: 1, level: auth.LevelReadOnly, denied: kerr.GroupAuthorizationFailed.Code, handle: consumerGroupDescribe,
		refuse: func(r *request, code int16) kmsg.Response {
			req := r.req.(*kmsg.ConsumerGroupDescribeRequest)
			resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
			for _, name := range req.Groups {
				row := kmsg.NewConsumerGroupDescribeResponseGroup()
				row.Group, row.ErrorCode = name, code
				resp.Groups = append(resp.Groups, row)
			}
			return resp
		}}
}

func consumerGroupDescribe(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ConsumerGroupDescribeRequest)
	resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
	nameOf := func(id [16]byte) string {
		if t, err := c.f.topicByID(ctx, c.caller(), id); err == nil {
			return t.name
		}
		return ""
	}
	for _, name := range once(req.Groups, itself) {
		row := kmsg.NewConsumerGroupDescribeResponseGroup()
		row.Group, row.AuthorizedOperations = name, math.MinInt32
		k, code := c.groupKey(name)
		if found := false; code == 0 {
			if found, code = c.f.groups.DescribeConsumer(ctx, k, nameOf, &row); !found && code == 0 {
				code = kerr.GroupIDNotFound.Code
				row.ErrorMessage = kmsg.StringPtr("there is no such group of the consumer protocol")
			}
		}
		row.ErrorCode = code
		resp.Groups = append(resp.Groups, row)
	}
	return resp, nil
}
