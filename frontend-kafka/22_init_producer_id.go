package frontendkafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
)

// InitProducerID, 0 to 5: the identity of an idempotent producer, or of a transactional one, whose open transaction is
// aborted and whose earlier holder is fenced. v3 may bring an identity whose epoch is to rise, v4 knows PRODUCER_FENCED.
func initProducerIDAPI() *api {
	return &api{key: 22, min: 0, max: 5, level: auth.LevelWriteOnly, denied: kerr.ClusterAuthorizationFailed.Code,
		handle: initProducerID, refuse: refuseInitProducerID}
}

func initProducerID(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.InitProducerIDRequest)
	resp := refuseInitProducerID(r, 0).(*kmsg.InitProducerIDResponse)
	init := engine.ProducerInit{ProducerRef: engine.ProducerRef{ID: engine.NoProducer, Epoch: -1}}
	if req.Version >= 3 {
		init.ID, init.Epoch = req.ProducerID, req.ProducerEpoch
	}
	if id := req.TransactionalID; id != nil && *id != "" { // some clients send an empty one for none
		init.TransactionalID = *id
		init.Timeout = time.Duration(req.TransactionTimeoutMillis) * time.Millisecond
		if init.Timeout <= 0 || init.Timeout > c.f.opts.TxnTimeoutMax {
			resp.ErrorCode = kerr.InvalidTransactionTimeout.Code
			return resp, nil
		}
	}
	if (init.ID == engine.NoProducer) != (init.Epoch == -1) || init.ID < engine.NoProducer {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp, nil
	}
	ctx, cancel := within(ctx, 0)
	defer cancel()
	made, err := c.f.engine.Records().InitProducer(ctx, c.caller(), init)
	if err != nil {
		resp.ErrorCode = coordinatorCode(err, req.Version < 4)
		return resp, nil
	}
	resp.ProducerID, resp.ProducerEpoch = made.ID, made.Epoch
	return resp, nil
}

// fenced is the code of an error of a transaction; versions that do not know PRODUCER_FENCED are told of the epoch.
func fenced(err error, old bool) int16 {
	code := codeOf(err)
	if old && code == kerr.ProducerFenced.Code {
		return kerr.InvalidProducerEpoch.Code
	}
	return code
}

// coordinatorCode is the code of an error for requests that go to the coordinator of a transaction: clients look for it
// anew, or wait for it, where a partition's leader would have another code.
func coordinatorCode(err error, old bool) int16 {
	var e *engine.Error
	switch {
	case errors.As(err, &e) && e != nil:
		switch e.Code {
		case engine.CodeNoLeader, engine.CodeClosed:
			return kerr.NotCoordinator.Code
		case engine.CodeOverloaded, engine.CodeRateLimited, engine.CodeRetry, engine.CodePaused, engine.CodeQueueFull,
			engine.CodeTimeout, engine.CodeOutcomeUnknown:
			return kerr.CoordinatorNotAvailable.Code
		case engine.CodeTooLarge: // a bound of the node is reached: no message is too large
			return kerr.PolicyViolation.Code
		case engine.CodeNameTooLong: // a transactional id's: no topic is named badly
			return kerr.InvalidRequest.Code
		}
	case errors.Is(err, context.DeadlineExceeded):
		return kerr.CoordinatorNotAvailable.Code
	}
	return fenced(err, old)
}

func refuseInitProducerID(r *request, code int16) kmsg.Response {
	resp := r.req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = code, -1, -1
	return resp
}
