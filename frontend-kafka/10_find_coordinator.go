package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// FindCoordinator, 0 to 6: who coordinates a group (0), a transactional id (1) or a share group (2, v6). v4 asks for
// several. It is the node that leads where the client's tenant is, for all of them.
func findCoordinatorAPI() *api {
	return &api{key: 10, min: 0, max: 6, level: auth.LevelPublic, handle: findCoordinator}
}

func findCoordinator(_ context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.FindCoordinatorRequest)
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	keys := req.CoordinatorKeys
	if req.Version < 4 {
		keys = []string{req.CoordinatorKey}
	}
	for _, key := range once(keys, itself) {
		one := kmsg.NewFindCoordinatorResponseCoordinator()
		one.Key, one.NodeID, one.Port = key, -1, -1
		if err := c.coordinator(req.CoordinatorType, key, &one); err != nil {
			one.ErrorCode, one.ErrorMessage = codeOf(err), textOf(err)
		}
		resp.Coordinators = append(resp.Coordinators, one)
	}
	if req.Version < 4 {
		one := resp.Coordinators[0]
		resp.NodeID, resp.Host, resp.Port, resp.ErrorCode, resp.ErrorMessage = one.NodeID, one.Host, one.Port, one.ErrorCode, one.ErrorMessage
		resp.Coordinators = nil
	}
	return resp, nil
}

// coordinator fills in the node that leads.
func (c *conn) coordinator(kind int8, key string, one *kmsg.FindCoordinatorResponseCoordinator) error {
	switch {
	case kind < 0 || kind > 2:
		return &fault{kerr.InvalidRequest, "a coordinator is of a group (0), a transactional id (1) or a share group (2)"}
	case kind == 0 && (key == "" || len(key) > 255):
		return &fault{kerr.InvalidGroupID, "a group id is 1 to 255 bytes"}
	}
	all := c.cluster()
	for _, b := range all.brokers {
		if b.id == all.controller {
			one.NodeID, one.Host, one.Port = b.id, b.host, b.port
			return nil
		}
	}
	return &fault{kerr.CoordinatorNotAvailable, "no node leads at the moment"}
}
