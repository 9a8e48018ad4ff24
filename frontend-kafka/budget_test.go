package frontendkafka

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/clock"
)

// Goal: what clients sent while they are throttled, or behind a fetch that waits, keeps nobody else from producing.
func TestQueuedFramesStarveNobody(t *testing.T) {
	const large = 256 << 10
	n, fake := startFake(t, func(o *Options) {
		o.Clock = clock.NewFake(1_700_000_000_000_000) // a pause does not end
		o.Memory, o.MaxFrame = 4<<20, 1<<20
	})
	n.topic("t", 1)
	big := produceRequest(9, 1, "t", 0, records(t, nil, string(make([]byte, large))))

	fake.mu.Lock()
	fake.fail = func(call string) *engine.Error {
		if call == "produce" {
			return &engine.Error{Code: engine.CodeOverloaded}
		}
		return nil
	}
	fake.mu.Unlock()
	var held []*raw
	for range 6 {
		c := n.dial()
		require.NotZero(t, c.ask(big).(*kmsg.ProduceResponse).ThrottleMillis)
		held = append(held, c)
	}
	for range 6 {
		c := n.dial()
		wait := fetchRequest(12, "t", 0)
		wait.MaxWaitMillis, wait.MinBytes = 600_000, 1<<20
		c.send(wait)
		held = append(held, c)
	}
	frames := kmsg.NewRequestFormatter().AppendRequest(nil, big, 1)
	for _, c := range held {
		go func() { _, _ = c.Write(bytes.Repeat(frames, 8)) }() // the node takes only some of it
	}
	ahead := n.f.budget.ahead
	require.Eventually(t, func() bool {
		c, ok := ahead.try(large + 1<<10)
		c.give()
		return !ok
	}, patience, pollEvery)

	fake.mu.Lock()
	fake.fail = nil
	fake.mu.Unlock()
	c := n.dial()
	for range 3 {
		require.Zero(t, c.produced(9, 1, "t", 0, records(t, nil, string(make([]byte, large)))).ErrorCode)
	}
	for _, c := range held {
		require.NoError(t, c.Close())
	}
}
