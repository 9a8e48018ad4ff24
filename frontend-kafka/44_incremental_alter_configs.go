package frontendkafka

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// IncrementalAlterConfigs, 0 to 1: sets and deletes single names, and adds to and takes from lists.
func incrementalAlterConfigsAPI() *api {
	return &api{key: 44, min: 0, max: 1, level: auth.LevelReadWrite, handle: incrementalAlterConfigs,
		refuse: func(r *request, code int16) kmsg.Response {
			resp := r.req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
			for _, res := range r.req.(*kmsg.IncrementalAlterConfigsRequest).Resources {
				row := kmsg.NewIncrementalAlterConfigsResponseResource()
				row.ResourceType, row.ResourceName, row.ErrorCode = res.ResourceType, res.ResourceName, code
				resp.Resources = append(resp.Resources, row)
			}
			return resp
		}}
}

func incrementalAlterConfigs(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.IncrementalAlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	ctx, cancel := within(ctx, 0)
	defer cancel()
	times := map[resourceKey]int{}
	for _, res := range req.Resources {
		times[resourceKey{res.ResourceType, res.ResourceName}]++
	}
	for _, res := range req.Resources {
		row := kmsg.NewIncrementalAlterConfigsResponseResource()
		row.ResourceType, row.ResourceName = res.ResourceType, res.ResourceName
		err := error(errTwice)
		if times[resourceKey{res.ResourceType, res.ResourceName}] == 1 {
			err = c.alter(ctx, res.ResourceType, res.ResourceName, req.ValidateOnly, func(r *configResource) (map[string]string, error) {
				return c.steps(r, res.ResourceType, res.Configs)
			})
		}
		row.ErrorCode, row.ErrorMessage = controllerCode(err), textOf(err)
		resp.Resources = append(resp.Resources, row)
	}
	return resp, nil
}

// steps carries out the operations of one resource on what is set.
func (c *conn) steps(r *configResource, kind kmsg.ConfigResourceType, ops []kmsg.IncrementalAlterConfigsRequestResourceConfig) (
	map[string]string, error) {
	set, seen := r.current(), map[string]bool{}
	for _, op := range ops {
		if seen[op.Name] {
			return nil, &fault{kerr.InvalidRequest, fmt.Sprintf("configuration %.64q is there more than once", op.Name)}
		}
		seen[op.Name] = true
		n := r.names.find(op.Name)
		if n == nil {
			return nil, &fault{kerr.InvalidConfig, fmt.Sprintf("unknown configuration %.64q", op.Name)}
		}
		if op.Op == kmsg.IncrementalAlterConfigOpDelete {
			delete(set, op.Name)
			continue
		}
		if op.Value == nil {
			return nil, &fault{kerr.InvalidRequest, fmt.Sprintf("configuration %.64q has no value", op.Name)}
		}
		value, err := stepped(&op, n, r.values[op.Name])
		if err != nil {
			return nil, err
		}
		if err := c.check(r, kind, op.Name, value); err != nil {
			return nil, err
		}
		if !n.fixed {
			set[op.Name] = value
		}
	}
	return set, nil
}

// stepped is the value of a name after one operation.
func stepped(op *kmsg.IncrementalAlterConfigsRequestResourceConfig, n *configName, now string) (string, error) {
	if op.Op == kmsg.IncrementalAlterConfigOpSet {
		return *op.Value, nil
	}
	if op.Op != kmsg.IncrementalAlterConfigOpAppend && op.Op != kmsg.IncrementalAlterConfigOpSubtract {
		return "", &fault{kerr.InvalidRequest, fmt.Sprintf("there is no operation %d on configuration", op.Op)}
	}
	if n.kind != tList {
		return "", &fault{kerr.InvalidConfig, fmt.Sprintf("%s is not a list: it can be set and deleted", n.name)}
	}
	var words []string
	if now != "" {
		words = strings.Split(now, ",")
	}
	for _, w := range strings.Split(*op.Value, ",") {
		w = strings.TrimSpace(w)
		if at := slices.Index(words, w); op.Op == kmsg.IncrementalAlterConfigOpAppend && at < 0 {
			words = append(words, w)
		} else if op.Op == kmsg.IncrementalAlterConfigOpSubtract && at >= 0 {
			words = slices.Delete(words, at, at+1)
		}
	}
	return strings.Join(words, ","), nil
}
