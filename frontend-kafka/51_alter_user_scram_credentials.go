package frontendkafka

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
)

// AlterUserScramCredentials, 0: makes, changes and deletes users. The client salts and hashes the password; what is kept
// can not log in anywhere. All changes to one user take place or none.
func alterUsersAPI() *api {
	return &api{key: 51, min: 0, max: 0, level: auth.LevelAdmin, handle: alterUsers,
		refuse: func(r *request, code int16) kmsg.Response {
			req := r.req.(*kmsg.AlterUserSCRAMCredentialsRequest)
			resp := req.ResponseKind().(*kmsg.AlterUserSCRAMCredentialsResponse)
			for _, name := range namedUsers(req) {
				resp.Results = append(resp.Results, kmsg.AlterUserSCRAMCredentialsResponseResult{User: name, ErrorCode: code})
			}
			return resp
		}}
}

// namedUsers are the users of a request, each once, in their order.
func namedUsers(req *kmsg.AlterUserSCRAMCredentialsRequest) (names []string) {
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, d := range req.Deletions {
		add(d.Name)
	}
	for _, u := range req.Upsertions {
		add(u.Name)
	}
	return names
}

func alterUsers(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.AlterUserSCRAMCredentialsRequest)
	resp := req.ResponseKind().(*kmsg.AlterUserSCRAMCredentialsResponse)
	ctx, cancel := within(ctx, 0)
	defer cancel()
	for _, name := range namedUsers(req) {
		row := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		row.User = name
		err := c.alterUser(ctx, name, req)
		row.ErrorCode, row.ErrorMessage = controllerCode(err), textOf(err)
		resp.Results = append(resp.Results, row)
	}
	return resp, nil
}

// alterUser carries out what a request says about one user.
func (c *conn) alterUser(ctx context.Context, name string, req *kmsg.AlterUserSCRAMCredentialsRequest) error {
	if !cleanName(name) {
		return &fault{kerr.UnacceptableCredential, "a user has a name of 1 to 255 bytes without control characters"}
	}
	for range alterAttempts {
		u, err := c.f.userNamed(name)
		if err != nil {
			return err
		}
		if u == nil {
			u = &user{V: userVersion, Tenant: auth.Tenant(c.caller().Tenant).String()}
		} else if !c.owns(u) {
			return &fault{kerr.UnacceptableCredential, "the name is taken"}
		}
		if err := u.alter(name, req); err != nil {
			return err
		}
		value, err := json.Marshal(u)
		if err != nil {
			return err
		}
		applied, err := c.f.rows.SetAdmin(ctx, format.SystemTenant, engine.AdminChange{Kind: format.AdminKafkaUser, Name: name, Value: value,
			Delete: u.SHA256 == nil && u.SHA512 == nil, Guarded: true, At: u.at})
		if err != nil || applied {
			return err
		}
	}
	return errChanged
}

// alter changes the keys of a user.
func (u *user) alter(name string, req *kmsg.AlterUserSCRAMCredentialsRequest) error {
	seen := map[int8]bool{}
	once := func(n int8) (**userKey, error) {
		m, ok := scramNumbers[n]
		switch {
		case !ok:
			return nil, &fault{kerr.UnsupportedSaslMechanism, fmt.Sprintf("there is no mechanism %d", n)}
		case seen[n]:
			return nil, &fault{kerr.DuplicateResource, "the user and mechanism are there more than once"}
		}
		seen[n] = true
		return u.slot(m), nil
	}
	for _, d := range req.Deletions {
		if d.Name != name {
			continue
		}
		slot, err := once(d.Mechanism)
		if err != nil {
			return err
		}
		if *slot == nil {
			return &fault{kerr.ResourceNotFound, "the user has no key of that mechanism"}
		}
		*slot = nil
	}
	for _, up := range req.Upsertions {
		if up.Name != name {
			continue
		}
		slot, err := once(up.Mechanism)
		if err != nil {
			return err
		}
		m := scramNumbers[up.Mechanism]
		switch {
		case up.Iterations < iterationsMin || up.Iterations > iterationsMax:
			return &fault{kerr.UnacceptableCredential, fmt.Sprintf("%d iterations: want %d to %d", up.Iterations, iterationsMin, iterationsMax)}
		case len(up.Salt) == 0 || len(up.Salt) > 256:
			return &fault{kerr.UnacceptableCredential, "a salt has 1 to 256 bytes"}
		case len(up.SaltedPassword) != hashOf(m)().Size():
			return &fault{kerr.UnacceptableCredential, fmt.Sprintf("a salted password of %s has %d bytes", m, hashOf(m)().Size())}
		}
		*slot = newUserKey(m, up.Salt, up.SaltedPassword, int(up.Iterations))
	}
	return nil
}
