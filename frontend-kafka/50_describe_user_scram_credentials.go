package frontendkafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
	"queen/engine/format"
)

// DescribeUserScramCredentials, 0: users and the mechanisms they have keys of; never the keys.
func describeUsersAPI() *api {
	return &api{key: 50, min: 0, max: 0, level: auth.LevelAdmin, handle: describeUsers,
		refuse: func(r *request, code int16) kmsg.Response {
			resp := r.req.ResponseKind().(*kmsg.DescribeUserSCRAMCredentialsResponse)
			resp.ErrorCode = code
			return resp
		}}
}

// scramNumbers are the mechanisms by their numbers on the wire.
var scramNumbers = map[int8]Mechanism{1: ScramSHA256, 2: ScramSHA512}

func describeUsers(_ context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeUserSCRAMCredentialsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeUserSCRAMCredentialsResponse)
	if len(req.Users) == 0 {
		for after := ""; ; {
			rows := c.f.rows.AdminRows(format.SystemTenant, format.AdminKafkaUser, after, 256)
			for _, row := range rows {
				after = row.Name
				if u, err := decodeUser(row.Value); err == nil && c.owns(u) {
					resp.Results = append(resp.Results, describeUser(row.Name, u))
				}
			}
			if len(rows) == 0 {
				return resp, nil
			}
		}
	}
	times := map[string]int{}
	for _, asked := range req.Users {
		times[asked.Name]++
	}
	for _, asked := range req.Users {
		row := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		row.User = asked.Name
		u, err := c.f.userNamed(asked.Name)
		switch {
		case times[asked.Name] < 0:
			continue
		case times[asked.Name] > 1:
			times[asked.Name] = -1
			err = &fault{kerr.DuplicateResource, "the user is there more than once"}
		case err == nil && (u == nil || !c.owns(u)):
			err = &fault{kerr.ResourceNotFound, fmt.Sprintf("there is no user %.64q", asked.Name)}
		case err == nil:
			row = describeUser(asked.Name, u)
		}
		row.ErrorCode, row.ErrorMessage = codeOf(err), textOf(err)
		resp.Results = append(resp.Results, row)
	}
	return resp, nil
}

// owns tells whether a user is one of the caller's tenant.
func (c *conn) owns(u *user) bool {
	t, _ := auth.ParseTenant(u.Tenant)
	return format.Tenant(t) == c.caller().Tenant
}

func describeUser(name string, u *user) kmsg.DescribeUserSCRAMCredentialsResponseResult {
	row := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
	row.User = name
	for _, n := range []int8{1, 2} {
		if k := *u.slot(scramNumbers[n]); k != nil {
			row.CredentialInfos = append(row.CredentialInfos, kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo{
				Mechanism: n, Iterations: int32(k.Iterations)})
		}
	}
	return row
}
