package frontendkafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// AlterConfigs, 0 to 2: what is sent is all that is set; every name that is left out goes back to its default.
func alterConfigsAPI() *api {
	return &api{key: 33, min: 0, max: 2, level: auth.LevelReadWrite, handle: alterConfigs,
		refuse: func(r *request, code int16) kmsg.Response {
			resp := r.req.ResponseKind().(*kmsg.AlterConfigsResponse)
			for _, res := range r.req.(*kmsg.AlterConfigsRequest).Resources {
				row := kmsg.NewAlterConfigsResponseResource()
				row.ResourceType, row.ResourceName, row.ErrorCode = res.ResourceType, res.ResourceName, code
				resp.Resources = append(resp.Resources, row)
			}
			return resp
		}}
}

// resourceKey names a resource of a request.
type resourceKey struct {
	kind kmsg.ConfigResourceType
	name string
}

var errTwice = &fault{kerr.InvalidRequest, "the resource is there more than once"}

func alterConfigs(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.AlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	ctx, cancel := within(ctx, 0)
	defer cancel()
	times := map[resourceKey]int{}
	for _, res := range req.Resources {
		times[resourceKey{res.ResourceType, res.ResourceName}]++
	}
	for _, res := range req.Resources {
		row := kmsg.NewAlterConfigsResponseResource()
		row.ResourceType, row.ResourceName = res.ResourceType, res.ResourceName
		err := error(errTwice)
		if times[resourceKey{res.ResourceType, res.ResourceName}] == 1 {
			err = c.alter(ctx, res.ResourceType, res.ResourceName, req.ValidateOnly, func(r *configResource) (map[string]string, error) {
				set := map[string]string{}
				for _, kv := range res.Configs {
					if kv.Value == nil {
						return nil, &fault{kerr.InvalidRequest, fmt.Sprintf("configuration %.64q has no value", kv.Name)}
					}
					if err := c.check(r, res.ResourceType, kv.Name, *kv.Value); err != nil {
						return nil, err
					}
					if n := r.names.find(kv.Name); !n.fixed {
						set[kv.Name] = *kv.Value
					}
				}
				return set, nil
			})
		}
		row.ErrorCode, row.ErrorMessage = controllerCode(err), textOf(err)
		resp.Resources = append(resp.Resources, row)
	}
	return resp, nil
}
