package frontendhttp

import (
	"context"
	"sync/atomic"

	"queen/engine"
	"queen/engine/enginetest"
	"queen/engine/format"
)

var defaultCaller = engine.Caller{Tenant: format.DefaultTenant}

// sink is an engine that keeps nothing: every message is queued at its place in the call, every ack succeeds, pops
// do what the test says. What it is not asked to fake is the model's.
type sink struct {
	*enginetest.Model
	caller atomic.Pointer[engine.Caller]
	// pop answers Pop; nil is an empty pop.
	pop func(context.Context, engine.PopRequest) (*engine.Delivery, error)
	// fail, when set, answers every Do.
	fail error
	// last is the request of the last pop.
	last atomic.Pointer[engine.PopRequest]
}

func newSink() *sink { return &sink{Model: enginetest.NewModel(enginetest.ModelOptions{})} }

func (s *sink) Do(_ context.Context, c engine.Caller, b engine.Batch) ([]engine.Result, error) {
	s.caller.Store(&c)
	if s.fail != nil {
		return nil, s.fail
	}
	res := make([]engine.Result, len(b.Ops))
	for i, op := range b.Ops {
		a, ok := op.(*engine.Append)
		if !ok {
			continue
		}
		res[i].Messages = make([]engine.MessageResult, len(a.Messages))
		for k := range a.Messages {
			res[i].Messages[k] = engine.MessageResult{Status: engine.Queued, ID: format.UUID{15: 1},
				Offset: format.Offset(k)}
		}
	}
	return res, nil
}

func (s *sink) Pop(ctx context.Context, c engine.Caller, r engine.PopRequest) (*engine.Delivery, error) {
	s.last.Store(&r)
	if s.pop == nil {
		return nil, nil
	}
	return s.pop(ctx, r)
}
