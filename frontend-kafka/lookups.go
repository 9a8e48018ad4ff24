package frontendkafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"queen/engine"
)

// lookups finds the topics of one request by name, each once.
type lookups struct {
	f     *Frontend
	who   engine.Caller
	known map[string]found
	epoch int32
	fresh fresh
}

func (c *conn) lookups() *lookups {
	who := c.caller()
	return &lookups{f: c.f, who: who, known: map[string]found{}, epoch: c.f.leaderEpoch(who.Tenant),
		fresh: fresh{f: c.f, who: who}}
}

// partition checks that a partition is one of a topic's, and that the leader epoch that the client believes in, -1 for
// none, is the real one.
func (l *lookups) partition(ctx context.Context, name string, n, epoch int32) error {
	t, ok := l.known[name]
	if !ok {
		t.topic, t.err = l.f.topic(ctx, l.who, name)
		l.known[name] = t
	}
	if t.err == nil && !t.has(n) {
		t.topic = l.fresh.topic(ctx, t.topic)
		l.known[name] = t
	}
	switch {
	case t.err != nil:
		return t.err
	case !t.has(n):
		return kerr.UnknownTopicOrPartition
	}
	if fault := epochFault(epoch, l.epoch); fault != nil {
		return fault
	}
	return nil
}

// unwritten tells whether an error is only that nobody has written to the partition yet.
func unwritten(e *engine.Error) bool { return e != nil && e.Code == engine.CodeUnknownPartition }

func isUnwritten(err error) bool {
	var e *engine.Error
	return errors.As(err, &e) && unwritten(e)
}
