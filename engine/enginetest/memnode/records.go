package memnode

import (
	"context"
	"errors"

	"queen/engine"
	"queen/engine/vfs"
)

// Records implements engine.Engine.
func (x *mortal) Records() engine.Records { return &mortalRecords{x.Node.Records(), x} }

// mortalRecords is the same for the calls that change something, and for the ones that read: a process without power
// answers nothing.
type mortalRecords struct {
	engine.Records
	x *mortal
}

func (m *mortalRecords) Produce(ctx context.Context, c engine.Caller, b []engine.RecordBatch) ([]engine.Produced, error) {
	ctx, done := m.x.until(ctx)
	defer done()
	out, err := m.Records.Produce(ctx, c, b)
	return out, m.x.why(err)
}

func (m *mortalRecords) Fetch(ctx context.Context, c engine.Caller, at []engine.FetchAt, most int) ([]engine.Fetched, error) {
	out, err := m.Records.Fetch(ctx, c, at, most)
	for i := range out {
		if out[i].Err != nil && errors.Is(out[i].Err, vfs.ErrPowerOff) {
			return nil, m.x.why(out[i].Err)
		}
	}
	return out, m.x.why(err)
}

func (m *mortalRecords) InitProducer(ctx context.Context, c engine.Caller, p engine.ProducerInit) (engine.ProducerIdentity, error) {
	ctx, done := m.x.until(ctx)
	defer done()
	id, err := m.Records.InitProducer(ctx, c, p)
	return id, m.x.why(err)
}

func (m *mortalRecords) EndTxn(ctx context.Context, c engine.Caller, e engine.TxnEnd) (engine.ProducerIdentity, error) {
	ctx, done := m.x.until(ctx)
	defer done()
	id, err := m.Records.EndTxn(ctx, c, e)
	return id, m.x.why(err)
}
