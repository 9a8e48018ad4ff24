package frontendhttp

import (
	"strconv"

	"queen/engine"
	"queen/engine/format"
)

func drainRoutes() []*route {
	const path = "/api/v1/raft/members/:node/drain"
	return []*route{
		{Method: "POST", Path: path, Access: admin, Mark: additional,
			Summary: "Have a node of the cluster drain: it serves what reaches it, is not ready, and leads only while no other voter can. " +
				"It may be said again.",
			Response: "Drain", Status: 200, Handle: drain},
		{Method: "DELETE", Path: path, Access: admin, Mark: additional,
			Summary: "End that a node of the cluster drains. It may be said again.", Response: "Drain", Status: 200, Handle: undrain},
	}
}

// drain answers POST /api/v1/raft/members/:node/drain.
func drain(c *call) error { return c.drain(true) }

// undrain answers DELETE /api/v1/raft/members/:node/drain.
func undrain(c *call) error { return c.drain(false) }

func (c *call) drain(on bool) error {
	name, err := c.name(0)
	if err != nil {
		return err
	}
	node, err := strconv.ParseUint(name, 10, 32)
	if err != nil || node == 0 {
		return &refusal{status: 400, code: "bad_request", text: "the number of a node is 1 to 4294967295", field: "node"}
	}
	m, ok := engine.MembershipOf(c.engine)
	if !ok {
		return &refusal{status: 409, code: "not_a_cluster", text: "this is a single node: there is no other one to take its place"}
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	leads, err := m.Drain(ctx, format.Replica(node), on)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.count("node", node)
	o.bool("draining", on)
	o.bool("leads", leads)
	o.close('}')
	c.send(200, o.b)
	return nil
}
