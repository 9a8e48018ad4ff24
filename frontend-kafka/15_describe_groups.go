package frontendkafka

import (
	"context"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
	"queen/frontend-kafka/groups"
)

// DescribeGroups, 0 to 6: state and members of groups of whatever protocol. Groups that only native consumers are in are
// Empty to Kafka: nobody of them is a member. v3 tells what the client may do, v4 instance ids, v6 says that a group is
// not there where earlier versions call it Dead.
func describeGroupsAPI() *api {
	return &api{key: 15, min: 0, max: 6, level: auth.LevelReadOnly, denied: kerr.GroupAuthorizationFailed.Code, handle: describeGroups,
		refuse: func(r *request, code int16) kmsg.Response {
			req := r.req.(*kmsg.DescribeGroupsRequest)
			resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
			for _, name := range req.Groups {
				row := kmsg.NewDescribeGroupsResponseGroup()
				row.Group, row.ErrorCode = name, code
				resp.Groups = append(resp.Groups, row)
			}
			return resp
		}}
}

func describeGroups(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeGroupsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	native := c.f.nativeGroups(ctx, c.caller())
	for _, name := range once(req.Groups, itself) {
		row := kmsg.NewDescribeGroupsResponseGroup()
		row.Group, row.AuthorizedOperations = name, math.MinInt32
		if row.ErrorCode = c.describeGroup(ctx, req.Version, native, &row); row.ErrorCode != 0 && row.State == "" {
			row.State = string(groups.Dead)
		}
		resp.Groups = append(resp.Groups, row)
	}
	return resp, nil
}

func (c *conn) describeGroup(ctx context.Context, version int16, native func(string) (bool, error),
	row *kmsg.DescribeGroupsResponseGroup,
) int16 {
	k, code := c.groupKey(row.Group)
	if code != 0 {
		return code
	}
	found, code := c.f.groups.Describe(ctx, k, row)
	if code != 0 {
		return code
	}
	if !found {
		there, err := native(row.Group)
		if err != nil {
			return groupCode(err)
		}
		if row.State = string(groups.Empty); there {
			return 0
		}
		row.State, row.ProtocolType = string(groups.Dead), ""
		if version >= 6 {
			row.ErrorMessage = kmsg.StringPtr("there is no such group")
			return kerr.GroupIDNotFound.Code
		}
	}
	return 0
}
