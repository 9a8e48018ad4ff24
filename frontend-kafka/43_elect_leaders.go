package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// ElectLeaders, 0 to 2: leaders are elected by the nodes among themselves; there never is one that should be another.
func electLeadersAPI() *api {
	return &api{key: 43, min: 0, max: 2, level: auth.LevelAdmin, handle: electLeaders, refuse: func(r *request, code int16) kmsg.Response {
		resp := r.req.ResponseKind().(*kmsg.ElectLeadersResponse)
		resp.ErrorCode = code
		return resp
	}}
}

func electLeaders(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ElectLeadersRequest)
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	for _, asked := range req.Topics { // none is all, of which none needs one
		row := kmsg.NewElectLeadersResponseTopic()
		row.Topic = asked.Topic
		t, err := c.f.topic(ctx, c.caller(), asked.Topic)
		for _, n := range asked.Partitions {
			p := kmsg.NewElectLeadersResponseTopicPartition()
			p.Partition = n
			switch {
			case err != nil:
				p.ErrorCode = controllerCode(err)
			case !t.has(n):
				p.ErrorCode = kerr.UnknownTopicOrPartition.Code
			default:
				p.ErrorCode = kerr.ElectionNotNeeded.Code
			}
			row.Partitions = append(row.Partitions, p)
		}
		resp.Topics = append(resp.Topics, row)
	}
	return resp, nil
}
