package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
)

// EndTxn, 0 to 5: commits or aborts, everywhere at once. v4 knows TRANSACTION_ABORTABLE; from v5 on the producer's epoch
// rises with every end (KIP-890), and the answer tells it.
func endTxnAPI() *api {
	return &api{key: 26, min: 0, max: 5, level: auth.LevelWriteOnly, denied: kerr.TransactionalIDAuthorizationFailed.Code,
		handle: endTxn, refuse: refuseEndTxn}
}

func endTxn(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.EndTxnRequest)
	end := engine.TxnEnd{ProducerRef: engine.ProducerRef{TransactionalID: req.TransactionalID, ID: req.ProducerID,
		Epoch: req.ProducerEpoch}, Commit: req.Commit, Bump: req.Version >= 5}
	ctx, cancel := within(ctx, 0)
	defer cancel()
	next, err := c.f.engine.Records().EndTxn(ctx, c.caller(), end)
	c.f.txns.ended(c.caller().Tenant, end.ProducerRef)
	code := coordinatorCode(err, req.Version < 2)
	if code == kerr.PolicyViolation.Code && req.Version >= 4 { // no room for its positions: the transaction is still open
		code = kerr.TransactionAbortable.Code
	}
	resp := refuseEndTxn(r, code).(*kmsg.EndTxnResponse)
	if err == nil && end.Bump {
		resp.ProducerID, resp.ProducerEpoch = next.ID, next.Epoch
	}
	return resp, nil
}

func refuseEndTxn(r *request, code int16) kmsg.Response {
	resp := r.req.ResponseKind().(*kmsg.EndTxnResponse)
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = code, -1, -1
	return resp
}
