package frontendkafka

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
	"queen/engine/format"
)

// DescribeClientQuotas, 0 to 1: quotas by who they are for.
func describeQuotasAPI() *api {
	return &api{key: 48, min: 0, max: 1, level: auth.LevelReadOnly, handle: describeQuotas, refuse: func(r *request, code int16) kmsg.Response {
		resp := r.req.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
		resp.ErrorCode = code
		return resp
	}}
}

// Ways to match a part of an entity.
const (
	matchExact   = 0
	matchDefault = 1
	matchAny     = 2
)

func describeQuotas(_ context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeClientQuotasRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
	seen := map[string]bool{}
	for _, want := range req.Components {
		var err error
		switch kind := want.EntityType; {
		case seen[kind] || kind != quotaUser && kind != quotaClient && kind != quotaIP:
			err = &fault{kerr.InvalidRequest, fmt.Sprintf("the kind %.32q is unknown or there twice", kind)}
		case want.MatchType < matchExact || want.MatchType > matchAny || (want.MatchType == matchExact) != (want.Match != nil):
			err = &fault{kerr.InvalidRequest, "an exact match has a name, and no other has"}
		}
		if err != nil {
			resp.ErrorCode, resp.ErrorMessage = codeOf(err), textOf(err)
			return resp, nil
		}
		seen[want.EntityType] = true
	}
	for after := ""; ; {
		rows := c.f.rows.AdminRows(c.caller().Tenant, format.AdminKafkaQuota, after, 256)
		for _, row := range rows {
			after = row.Name
			e, err := parseEntity(row.Name)
			q, bad := decodeQuota(row.Value)
			if err == nil && bad == nil && e.matches(req) {
				resp.Entries = append(resp.Entries, describeQuota(e, q))
			}
		}
		if len(rows) == 0 {
			return resp, nil
		}
	}
}

// matches tells whether an entity has what a request asks for, and with Strict nothing else.
func (e entity) matches(req *kmsg.DescribeClientQuotasRequest) bool {
	for _, want := range req.Components {
		n, ok := e.part(want.EntityType)
		if !ok || want.MatchType == matchExact && (n.rest || n.name != *want.Match) || want.MatchType == matchDefault && !n.rest {
			return false
		}
	}
	return !req.Strict || len(e) == len(req.Components)
}

func describeQuota(e entity, q quotaRow) kmsg.DescribeClientQuotasResponseEntry {
	row := kmsg.NewDescribeClientQuotasResponseEntry()
	for _, n := range e {
		part := kmsg.DescribeClientQuotasResponseEntryEntity{Type: n.kind}
		if !n.rest {
			part.Name = kmsg.StringPtr(n.name)
		}
		row.Entity = append(row.Entity, part)
	}
	for key, v := range q.Set {
		row.Values = append(row.Values, kmsg.DescribeClientQuotasResponseEntryValue{Key: key, Value: v})
	}
	slices.SortFunc(row.Values, func(a, b kmsg.DescribeClientQuotasResponseEntryValue) int { return cmp.Compare(a.Key, b.Key) })
	return row
}
