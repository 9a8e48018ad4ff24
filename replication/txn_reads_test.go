package replication

import (
	"context"
	"fmt"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// TestOtherNodesEndTransactions: a producer that was given its identity by one node, and begins its transaction there, may end it at
// any other one as soon as it likes, and is found there.
func TestOtherNodesEndTransactions(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	leader, ctx, who := c.leader(), context.Background(), engine.Caller{Tenant: format.DefaultTenant}
	here, other := c.nodes[leader].Records(), c.nodes[leader%3+1].Records()
	if _, err := push(ctx, c.nodes[leader], "q", "0", "", "x"); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		ref := engine.ProducerRef{TransactionalID: fmt.Sprintf("%03d", i), ID: engine.NoProducer, Epoch: -1}
		made, err := here.InitProducer(ctx, who, engine.ProducerInit{ProducerRef: ref, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ref.ID, ref.Epoch = made.ID, made.Epoch
		switch i % 4 {
		case 0:
			if err := here.AddToTxn(ctx, who, ref, []engine.PartitionRef{{Queue: "q", Partition: "0"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := other.EndTxn(ctx, who, engine.TxnEnd{ProducerRef: ref, Commit: true, Bump: true}); err != nil {
				t.Errorf("%s: the end: %v", ref.TransactionalID, err)
			}
		case 1:
			if got, err := other.Transaction(ctx, who, ref.TransactionalID); err != nil || got.ID != ref.ID {
				t.Errorf("%s: %+v, %v", ref.TransactionalID, got, err)
			}
		case 2:
			if rows, _, err := other.Transactions(ctx, who, fmt.Sprintf("%03d", i-1), 10); err != nil || len(rows) != 1 {
				t.Errorf("%s: %d listed, %v", ref.TransactionalID, len(rows), err)
			}
		case 3:
			queue := "q" + ref.TransactionalID
			if _, err := push(ctx, c.nodes[leader], queue, "0", "", "x"); err != nil {
				t.Fatal(err)
			}
			if rows, err := other.Producers(ctx, who, engine.PartitionRef{Queue: queue, Partition: "0"}); err != nil || len(rows) != 0 {
				t.Errorf("%s: producers %+v, %v", queue, rows, err)
			}
		}
	}
	stranger := engine.ProducerRef{TransactionalID: "000", ID: 1 << 40}
	if _, err := other.EndTxn(ctx, who, engine.TxnEnd{ProducerRef: stranger}); err == nil {
		t.Error("a stranger ended a transaction")
	}
}
