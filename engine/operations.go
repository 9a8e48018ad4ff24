package engine

import (
	"context"

	"queen/engine/format"
)

// Operations is what an operator may ask of a node beyond Engine: switches, and jobs that move dead letters.
// Not every engine has it: see OperationsOf.
type Operations interface {
	// Switches tells what is switched on.
	Switches() Switches
	// SetSwitches changes those that are not nil, each durable when the call returns.
	SetSwitches(ctx context.Context, kv, schedule, fire *bool) (Switches, error)

	// Activity tells what the tenant, with queue 0, or one of its queues did by the minute, from and to included, of the
	// last two hours at most; false when it is not counted: nothing happened for long, or there are too many queues.
	Activity(c Caller, queue format.QueueID, from, to format.Wall) ([]ActivityPoint, bool)

	// CountRedrive counts what a job would move now, with a sample of it, oldest failure first.
	CountRedrive(ctx context.Context, c Caller, r RedriveRequest) (RedriveCount, error)
	// StartRedrive starts a job; the same Caller.Key starts it once.
	StartRedrive(ctx context.Context, c Caller, r RedriveRequest) (RedriveJob, error)
	// RedriveJob finds a job of the caller's tenant; CodeNotFound.
	RedriveJob(ctx context.Context, c Caller, id string) (RedriveJob, error)
}

var _ Operations = (*Node)(nil)

// OperationsOf finds the operator's door of an engine; false where there is none. Plans do not limit operators.
func OperationsOf(e Engine) (Operations, bool) {
	o, ok := innermost(e).(Operations)
	return o, ok
}
