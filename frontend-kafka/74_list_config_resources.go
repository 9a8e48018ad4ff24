package frontendkafka

import (
	"context"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
	"queen/engine/format"
)

// ListConfigResources, 0 to 1: what can be described. v0 asks for metrics that clients push, of which there are none; v1
// names types.
func listConfigResourcesAPI() *api {
	return &api{key: 74, min: 0, max: 1, level: auth.LevelReadOnly, handle: listConfigResources,
		refuse: func(r *request, code int16) kmsg.Response {
			resp := r.req.ResponseKind().(*kmsg.ListConfigResourcesResponse)
			resp.ErrorCode = code
			return resp
		}}
}

func listConfigResources(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ListConfigResourcesRequest)
	resp := req.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	if req.Version == 0 {
		return resp, nil
	}
	kinds := req.ResourceTypes
	if len(kinds) == 0 {
		kinds = []int8{int8(aTopic), int8(aBroker), int8(aLogger), int8(aGroup)}
	}
	list := listing{c: c}
	var full error
	add := func(kind kmsg.ConfigResourceType, name string) bool {
		if full = list.add(ctx, nameRoom+int64(len(name))); full != nil {
			return false
		}
		resp.ConfigResources = append(resp.ConfigResources, kmsg.ListConfigResourcesResponseConfigResource{Name: name, Type: int8(kind)})
		return true
	}
	for _, k := range once(kinds, itself) {
		switch kind := kmsg.ConfigResourceType(k); kind {
		case aTopic:
			if err := c.f.eachTopic(ctx, c.caller(), func(t *topic) bool { return add(kind, t.name) }); err != nil {
				return nil, err
			}
		case aBroker, aLogger:
			for _, id := range c.cluster().voters {
				add(kind, strconv.Itoa(int(id)))
			}
		case aGroup:
			c.eachConfigured(ofGroup, func(name string) bool { return add(kind, name) })
		case kmsg.ConfigResourceTypeClientMetrics:
		default:
			resp.ErrorCode, resp.ConfigResources = kerr.UnsupportedVersion.Code, nil
			return resp, nil
		}
		if full != nil {
			return nil, full
		}
	}
	return resp, nil
}

// eachConfigured calls fn with the names of one kind that have a row, until it returns false.
func (c *conn) eachConfigured(kind string, fn func(name string) bool) {
	for after := kind; ; {
		rows := c.f.rows.AdminRows(c.caller().Tenant, format.AdminKafkaConfig, after, 256)
		for _, row := range rows {
			name, ok := strings.CutPrefix(row.Name, kind)
			if !ok || !fn(name) {
				return
			}
			after = row.Name
		}
		if len(rows) == 0 {
			return
		}
	}
}
