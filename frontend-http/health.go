package frontendhttp

import (
	"queen/engine"
)

// startingPhase is the phase of a node that says nothing about its start-up.
const startingPhase = "starting"

func healthRoutes() []*route {
	return []*route{
		{Method: "GET", Path: "/livez", Access: public, Mark: additional, Summary: "Does the process turn?",
			Response: "Live", Status: 200, Alone: true, Probe: true, Handle: livez},
		{Method: "GET", Path: "/readyz", Access: public, Mark: additional,
			Summary: "Can this node commit, and does it not drain? 503 says why not, with progress while starting.", Response: "Ready",
			Status: 200, Also: map[int]string{503: "Ready"}, Alone: true, Probe: true, Handle: readyz},
		{Method: "GET", Path: "/health", Access: public, Mark: common, Summary: "Health in upstream's document.",
			Response: "Health", Status: 200, Also: map[int]string{503: "Health"}, Alone: true, Probe: true, Handle: health},
		{Method: "GET", Path: "/status", Access: readOnly, Mark: operator, Summary: "A static word.",
			Response: "Status", Status: 200, Alone: true, Handle: status},
		{Method: "GET", Path: "/metrics", Access: public, Mark: operator,
			Summary: "Metrics: JSON, or text when Accept names text/plain or openmetrics.", Response: "Metrics",
			Status: 200, Text: true, Alone: true, Closable: true, Handle: metricsJSON},
		{Method: "GET", Path: "/metrics/prometheus", Access: public, Mark: operator, Summary: "Metrics as Prometheus text.",
			Response: "Text", Status: 200, Alone: true, Closable: true, Handle: metricsText},
		{Method: "GET", Path: "/openapi.json", Access: public, Mark: additional, Summary: "This document.",
			Response: "Object", Status: 200, Alone: true, Handle: document},
	}
}

func livez(c *call) error {
	c.send(200, append(c.buffer(), `{"status":"ok"}`...))
	return nil
}

// condition is the engine's status, or that of a node without engine yet, which has no groups; ready is whether it can commit.
func (c *call) condition() (s engine.Status, ready bool) {
	s = engine.Status{Role: "stopped", Phase: startingPhase, Why: "the node is starting"}
	if c.engine == nil {
		if c.f.opts.Starting != nil {
			s.Phase, s.Progress = c.f.opts.Starting()
		}
		return s, false
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	s, err := c.engine.Status(ctx)
	switch {
	case err != nil:
		s.Why = asEngineError(err).Message
		return s, false
	case c.f.stopping.Err() != nil:
		s.Groups, s.Why = s.RaftGroups(), "the node is draining"
		return s, false
	}
	s.Groups = s.RaftGroups()
	return s, s.Ready && s.CanWrite
}

// readyz tells the truth: 200 only where a write would commit. A full disk still serves acks, and says so. A node that drains
// would commit as well, and is to be sent nothing more.
func readyz(c *call) error {
	s, ready := c.condition()
	ready = ready && !s.Draining
	o := out{c.buffer()}
	o.open('{')
	if ready {
		o.str("status", "ready")
	} else {
		o.str("status", "not_ready")
	}
	o.bool("ready", ready)
	o.bool("draining", s.Draining)
	o.strOrNull("why", s.Why)
	o.str("role", s.Role)
	o.strOrNull("phase", s.Phase)
	o.float("progress", s.Progress)
	o.bool("storageFull", s.StorageFull)
	o.strOrNull("clockStep", s.ClockStep)
	o.strOrNull("ioMode", s.IOMode)
	o.close('}')
	c.answerHealth(ready, o.b)
	return nil
}

// answerHealth is 503 with Retry-After while not ready.
func (c *call) answerHealth(ready bool, body []byte) {
	c.ctx.Response.Header.Set("Cache-Control", "no-store")
	if ready {
		c.send(200, body)
		return
	}
	c.ctx.Response.Header.Set("Retry-After", "1")
	c.send(503, body)
}

// health is upstream's document (http-api 2.1), with the node's raft groups. A node that drains is healthy.
func health(c *call) error {
	s, ready := c.condition()
	if ready {
		s.Why = "" // that it drains is no failure
	}
	o := out{c.buffer()}
	o.open('{')
	if ready {
		o.str("status", "healthy")
	} else {
		o.str("status", "settling")
	}
	o.str("engine", "raft")
	o.str("version", c.f.opts.Version)
	o.key("raft").open('{')
	o.str("role", s.Role)
	o.bool("leader", s.Role == "leader")
	o.bool("draining", s.Draining)
	o.count("term", uint64(s.Term))
	o.count("applied", uint64(s.Applied))
	o.count("commit", uint64(s.Durable))
	o.num("lag", 0) // a node serves what it has applied, and applies what it has made durable at once
	o.bool("storageReady", c.engine != nil && !s.StorageFull)
	o.count("clusterVersion", uint64(s.Format))
	o.count("kinds", uint64(s.Format))
	o.key("apply").open('{')
	o.strOrNull("failure", s.Why)
	o.key("skipped").open('[')
	o.close(']').close('}')
	o.raftGroups(s.Groups)
	o.close('}').close('}')
	c.answerHealth(ready, o.b)
	return nil
}

// raftGroups tells of the raft groups as this node sees them.
func (o *out) raftGroups(all []engine.GroupStatus) {
	o.key("groups").open('[')
	for i := range all {
		g := &all[i]
		o.open('{')
		o.count("group", uint64(g.Group))
		o.str("role", g.Role)
		o.replica("leader", g.Leader)
		o.count("term", uint64(g.Term))
		o.count("applied", uint64(g.Applied))
		o.count("commit", uint64(g.Commit))
		o.bool("quorum", g.Quorum)
		o.bool("canWrite", g.CanWrite)
		o.strOrNull("why", g.Why)
		o.close('}')
	}
	o.close(']')
}

func status(c *call) error {
	c.send(200, append(c.buffer(), `{"status":"ok","engine":"raft"}`...))
	return nil
}

func document(c *call) error {
	c.send(200, append(c.buffer(), c.f.openAPI...))
	return nil
}
