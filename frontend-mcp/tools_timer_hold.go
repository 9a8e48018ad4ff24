package frontendmcp

import (
	"queen/engine"
	"queen/engine/format"
)

type timerHoldArgs struct {
	Queue  string `json:"queue"`
	Key    string `json:"key"`
	Paused bool   `json:"paused" jsonschema:"true holds the timer back, false lets it go on"`
	Confirming
}

// timerHold pauses a timer or resumes it. One that is not there is refused instead of planned for.
func timerHold(c *call, in timerHoldArgs) (out timerWriteResult, err error) {
	_, found, err := c.engine.Keyed().Timer(c.ctx, c.caller, in.Queue, in.Key)
	if err == nil && !found {
		err = &toolError{Code: "not_found", Message: "there is no such timer", Field: "key", Hint: "timer_list shows those that are pending"}
	}
	if err != nil {
		return out, err
	}
	op := &engine.Timer{Op: format.TimerResume, Queue: in.Queue, Key: in.Key}
	action, effect := "resume a timer", "What fell due while the timer was paused is due at once; a recurring one then does as its catch-up says."
	if in.Paused {
		op.Op = format.TimerPause
		action, effect = "pause a timer", "The timer does not fire until it is resumed or scheduled anew; what falls due meanwhile is due then."
	}
	asked, err := c.confirm(in.Confirming, []any{in.Queue, in.Key, in.Paused}, in.Key, Plan{Action: action, Reversible: in.Paused,
		Target: map[string]string{"queue": in.Queue, "key": in.Key}, Counts: map[string]uint64{"timers": 1}, Effects: []string{effect}})
	if err != nil || asked != nil {
		out.Planned = orNone(asked)
		return out, err
	}
	return c.doTimer(op)
}
