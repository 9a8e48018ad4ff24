package frontendkafka

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"queen/engine"
	"queen/engine/format"
)

const (
	// txnPartsMost bounds the partitions of one transaction: its end is one entry that touches each of them.
	txnPartsMost = 100_000
	// txnsCounted bounds the transactions whose partitions are counted; further ones make others be asked for again.
	txnsCounted = 16_384
)

// txnKey is a life of a transactional producer.
type txnKey struct {
	tenant format.Tenant
	id     string
	pid    int64
	epoch  int16
}

// txnCounts says how many partitions transactions have at most, so that the engine, which lists them, is asked seldom.
type txnCounts struct {
	mu   sync.Mutex
	most int
	of   map[txnKey]int
}

// errTxnWide refuses partitions beyond the bound. Transactions can be aborted then, and their producers go on.
var errTxnWide = &fault{kerr.PolicyViolation, "a transaction takes no more partitions: end it, and go on in another"}

// widen counts further partitions of a transaction; an error when there are too many. Those that are in it already count,
// too, until the bound is met: then the engine is asked which there are in truth.
func (f *Frontend) widen(ctx context.Context, who engine.Caller, p engine.ProducerRef, parts ...engine.PartitionRef) error {
	k := txnKey{who.Tenant, p.TransactionalID, p.ID, p.Epoch}
	t := &f.txns
	t.mu.Lock()
	have, known := t.of[k]
	t.mu.Unlock()
	if have += len(parts); !known || have > t.most {
		in := map[engine.PartitionRef]struct{}{}
		if info, err := f.engine.Records().Transaction(ctx, who, p.TransactionalID); err == nil && info.ID == p.ID && info.Epoch == p.Epoch {
			for _, ref := range info.Partitions {
				in[ref] = struct{}{}
			}
		}
		for _, ref := range parts {
			in[ref] = struct{}{}
		}
		if have = len(in); have > t.most {
			return errTxnWide
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil || len(t.of) >= txnsCounted {
		t.of = map[txnKey]int{}
	}
	t.of[k] = have
	return nil
}

// ended forgets how many partitions a transaction had.
func (t *txnCounts) ended(tenant format.Tenant, p engine.ProducerRef) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, txnKey{tenant, p.TransactionalID, p.ID, p.Epoch})
}
