package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// Goal: a tenant can hold no more partitions in transactions, open or aborted, than are left for all, so that others have room
// whatever it does; the error names the limit, and what is in a transaction already goes on.
func TestShareOfATenantInTransactions(t *testing.T) {
	const most = 12
	r := newRecordRig(t)
	r.node.BoundTxnShare(most)
	p := r.producer("tx")
	refused := func(err error, free int) {
		t.Helper()
		var e *engine.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, engine.CodeQuotaExceeded, e.Code)
		require.Equal(t, "partitions", e.Field)
		require.Equal(t, fmt.Sprintf("%d partitions of the tenant in open and aborted transactions, as many as are free of %d", free, most), e.Limit)
	}
	refused(p.add("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"), most)
	require.NoError(t, p.add("0", "1", "2", "3", "4", "5"))
	full := func(free int) {
		t.Helper()
		refused(p.add("6"), free)
		p.implicit = true
		out := p.send("6", "x")
		require.NotNil(t, out.Err)
		refused(out.Err, free)
		require.Nil(t, p.send("0", "a").Err, "its partition is in the transaction")
		p.implicit = false
	}
	full(6)
	require.Nil(t, p.send("1", "a").Err)

	var others []func(partitions ...string) error
	for i := range byte(2) {
		c := engine.Caller{Tenant: format.Tenant{7 + i}}
		_, err := r.node.Catalog().Configure(context.Background(), c, engine.ConfigureRequest{Queue: "q"})
		require.NoError(t, err)
		others = append(others, func(partitions ...string) error {
			ref := engine.ProducerRef{TransactionalID: "tx", ID: engine.NoProducer}
			id, err := r.node.Records().InitProducer(context.Background(), c, engine.ProducerInit{ProducerRef: ref, Timeout: time.Minute})
			require.NoError(t, err)
			var refs []engine.PartitionRef
			for _, name := range partitions {
				refs = append(refs, engine.PartitionRef{Queue: "q", Partition: name})
			}
			return r.node.Records().AddToTxn(context.Background(), c, engine.ProducerRef{TransactionalID: "tx", ID: id.ID, Epoch: id.Epoch}, refs)
		})
	}
	require.NoError(t, others[0]("0", "1", "2"))
	full(3)
	r.crash() // the shares are found again
	r.node.BoundTxnShare(most)
	full(3)
	refused(others[1]("0", "1", "2", "3"), 3)
	require.NoError(t, others[1]("0"))

	// Of the six the two with records stay, aborted.
	require.NoError(t, p.end(false, false))
	refused(p.add("0", "1", "2", "3", "4"), 6)
	require.NoError(t, p.add("0", "1", "2", "3"))
	full(2)
}
