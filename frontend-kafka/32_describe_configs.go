package frontendkafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// DescribeConfigs, 1 to 4: every name with its value and where it comes from; v3 adds types and documentation.
func describeConfigsAPI() *api {
	return &api{key: 32, min: 1, max: 4, level: auth.LevelReadOnly, handle: describeConfigs,
		refuse: func(r *request, code int16) kmsg.Response {
			resp := r.req.ResponseKind().(*kmsg.DescribeConfigsResponse)
			for _, res := range r.req.(*kmsg.DescribeConfigsRequest).Resources {
				row := kmsg.NewDescribeConfigsResponseResource()
				row.ResourceType, row.ResourceName, row.ErrorCode = res.ResourceType, res.ResourceName, code
				resp.Resources = append(resp.Resources, row)
			}
			return resp
		}}
}

func describeConfigs(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	c.f.freshen(ctx, c.caller())
	type named struct {
		kind kmsg.ConfigResourceType
		name string
	}
	key := func(res *kmsg.DescribeConfigsRequestResource) named { return named{res.ResourceType, res.ResourceName} }
	list, each := listing{c: c}, int64(configRoom)
	if req.IncludeSynonyms {
		each += configRoom
	}
	for _, res := range once(req.Resources, key) {
		row := kmsg.NewDescribeConfigsResponseResource()
		row.ResourceType, row.ResourceName = res.ResourceType, res.ResourceName
		found, err := c.resource(ctx, res.ResourceType, res.ResourceName)
		if err != nil {
			row.ErrorCode, row.ErrorMessage = codeOf(err), textOf(err)
			resp.Resources = append(resp.Resources, row)
			continue
		}
		for i := range found.names {
			n := &found.names[i]
			if res.ConfigNames == nil || slices.Contains(res.ConfigNames, n.name) {
				row.Configs = append(row.Configs, found.describe(n, req))
			}
		}
		// A group that nobody knows has a configuration, too: a few bytes ask for all of its names.
		if err := list.add(ctx, each*int64(len(row.Configs))); err != nil {
			return nil, err
		}
		resp.Resources = append(resp.Resources, row)
	}
	return resp, nil
}

// describe is the row of one name.
func (r *configResource) describe(n *configName, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	row := kmsg.NewDescribeConfigsResponseResourceConfig()
	row.Name, row.Value, row.ReadOnly, row.ConfigType = n.name, kmsg.StringPtr(r.values[n.name]), n.fixed, n.kind
	base := kmsg.ConfigSourceDefaultConfig
	if n.fixed {
		base = kmsg.ConfigSourceStaticBrokerConfig
	}
	if row.Source = base; r.set[n.name] {
		row.Source = r.source
	}
	row.IsDefault = !r.set[n.name]
	if req.IncludeSynonyms {
		add := func(name, value string, from kmsg.ConfigSource) {
			s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			s.Name, s.Value, s.Source = name, &value, from
			row.ConfigSynonyms = append(row.ConfigSynonyms, s)
		}
		if r.set[n.name] {
			add(n.name, r.values[n.name], r.source)
		}
		name := n.name
		if n.synonym != "" {
			name = n.synonym
		}
		add(name, n.def, base)
	}
	if req.IncludeDocumentation {
		row.Documentation = &n.doc
	}
	return row
}
