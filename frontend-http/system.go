package frontendhttp

import "queen/engine"

func systemRoutes() []*route {
	return []*route{
		{Method: "POST", Path: "/api/v1/stats/refresh", Access: admin, Mark: operator,
			Summary: "Accepted for older clients; statistics need no refresh.", Request: "Empty", Response: "Refreshed",
			Status: 200, Handle: refreshed},
		{Method: "GET", Path: "/api/v1/system/kv-timers", Access: admin, Mark: operator,
			Summary:  "Tell which of key-value writes, timer schedules and timer fires are on.",
			Response: "KVTimers", Status: 200, Handle: kvTimers},
		{Method: "POST", Path: "/api/v1/system/kv-timers", Access: admin, Mark: operator,
			Summary: "Switch key-value writes, timer schedules and timer fires on or off, on all tenants.",
			Request: "KVTimersSwitch", Response: "KVTimers", Status: 200, Handle: switchKVTimers},
	}
}

// refreshed answers POST /api/v1/stats/refresh: there is nothing that gets stale.
func refreshed(c *call) error {
	o := out{c.buffer()}
	o.open('{')
	o.bool("success", true)
	o.close('}')
	c.send(200, o.b)
	return nil
}

// kvTimers answers GET /api/v1/system/kv-timers.
func kvTimers(c *call) error {
	ops, err := c.operations()
	if err != nil {
		return err
	}
	c.switches(ops.Switches())
	return nil
}

func (c *call) switches(s engine.Switches) {
	o := out{c.buffer()}
	o.open('{')
	o.bool("kvEnabled", s.KV)
	o.bool("timersScheduleEnabled", s.TimerSchedule)
	o.bool("timersFireEnabled", s.TimerFire)
	o.close('}')
	c.send(200, o.b)
}

// switchKVTimers answers POST /api/v1/system/kv-timers with the state after it.
func switchKVTimers(c *call) error {
	var in struct {
		KV       *bool `json:"kv"`
		Schedule *bool `json:"timersSchedule"`
		Fire     *bool `json:"timersFire"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	if in.KV == nil && in.Schedule == nil && in.Fire == nil {
		return badRequest("one of kv, timersSchedule and timersFire must be true or false")
	}
	ops, err := c.operations()
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	s, err := ops.SetSwitches(ctx, in.KV, in.Schedule, in.Fire)
	if err != nil {
		return err
	}
	c.switches(s)
	return nil
}
