package frontendkafka

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
	"queen/frontend-kafka/groups"
)

// ListGroups, 0 to 5: the groups there are, those of native consumers among them. v4 asks for states, v5 for types. A node
// that does not coordinate lists none, since clients ask every node.
func listGroupsAPI() *api {
	return &api{key: 16, min: 0, max: 5, level: auth.LevelReadOnly, denied: kerr.ClusterAuthorizationFailed.Code, handle: listGroups,
		refuse: func(r *request, code int16) kmsg.Response {
			resp := r.req.ResponseKind().(*kmsg.ListGroupsResponse)
			resp.ErrorCode = code
			return resp
		}}
}

func listGroups(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ListGroupsRequest)
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	if !c.f.coordinates(c.caller().Tenant) {
		return resp, nil
	}
	all, err := c.f.listedGroups(ctx, c.caller())
	if err != nil {
		resp.ErrorCode = groupCode(err)
		return resp, nil
	}
	asked := func(filter []string, v string) bool {
		return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, v) })
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		in := all[name]
		if !asked(req.StatesFilter, in.State) || !asked(req.TypesFilter, in.Type) {
			continue
		}
		row := kmsg.NewListGroupsResponseGroup()
		row.Group, row.ProtocolType, row.GroupState, row.GroupType = name, in.ProtocolType, in.State, in.Type
		resp.Groups = append(resp.Groups, row)
	}
	return resp, nil
}

// listedGroups are groups of native consumers, those with rows and those in memory; what is in memory counts most.
func (f *Frontend) listedGroups(ctx context.Context, who engine.Caller) (map[string]groups.Info, error) {
	all := map[string]groups.Info{}
	native, err := f.engine.Catalog().Groups(ctx, who)
	if err != nil {
		return nil, err
	}
	for i := range native {
		if native[i].Name != format.QueueMode {
			all[native[i].Name] = groups.Info{Type: "classic", State: string(groups.Empty)}
		}
	}
	for after := ""; ; {
		rows, next, err := f.engine.Records().GroupRows(ctx, who, after, 1000)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			all[rows[i].Group] = groups.InfoOf(rows[i].Value)
		}
		if after = next; next == "" {
			break
		}
	}
	maps.Copy(all, f.groups.Live(who.Tenant))
	return all, nil
}
