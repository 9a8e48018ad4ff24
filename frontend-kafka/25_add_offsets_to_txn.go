package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
)

// AddOffsetsToTxn, 0 to 4: a transaction is about to commit positions of a consumer group. It begins here if it has
// not; the positions themselves come with TxnOffsetCommit.
func addOffsetsToTxnAPI() *api {
	return &api{key: 25, min: 0, max: 4, level: auth.LevelReadWrite, denied: kerr.TransactionalIDAuthorizationFailed.Code,
		handle: addOffsetsToTxn, refuse: refuseAddOffsetsToTxn}
}

func addOffsetsToTxn(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.AddOffsetsToTxnRequest)
	if req.Group == "" || len(req.Group) > 255 {
		return refuseAddOffsetsToTxn(r, kerr.InvalidGroupID.Code), nil
	}
	ref := engine.ProducerRef{TransactionalID: req.TransactionalID, ID: req.ProducerID, Epoch: req.ProducerEpoch}
	ctx, cancel := within(ctx, 0)
	defer cancel()
	err := c.f.engine.Records().AddToTxn(ctx, c.caller(), ref, nil)
	return refuseAddOffsetsToTxn(r, coordinatorCode(err, req.Version < 2)), nil
}

func refuseAddOffsetsToTxn(r *request, code int16) kmsg.Response {
	resp := r.req.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
	resp.ErrorCode = code
	return resp
}
