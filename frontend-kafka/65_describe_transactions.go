package frontendkafka

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
)

// DescribeTransactions, 0: what transactional ids are about.
func describeTransactionsAPI() *api {
	return &api{key: 65, min: 0, max: 0, level: auth.LevelReadOnly, denied: kerr.TransactionalIDAuthorizationFailed.Code,
		handle: describeTransactions, refuse: refuseDescribeTransactions}
}

func describeTransactions(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeTransactionsRequest)
	req.TransactionalIDs = once(req.TransactionalIDs, itself)
	resp := refuseDescribeTransactions(r, 0).(*kmsg.DescribeTransactionsResponse)
	list := listing{c: c}
	for i := range resp.TransactionStates {
		out := &resp.TransactionStates[i]
		info, err := c.f.engine.Records().Transaction(ctx, c.caller(), out.TransactionalID)
		switch {
		case errors.Is(err, &engine.Error{Code: engine.CodeNotFound}):
			out.ErrorCode = kerr.TransactionalIDNotFound.Code
		case err != nil:
			out.ErrorCode = codeOf(err)
		default:
			if err := list.add(ctx, int64(len(info.Partitions))*partitionRoom); err != nil {
				return nil, err
			}
			describe(out, &info)
		}
	}
	return resp, nil
}

func describe(out *kmsg.DescribeTransactionsResponseTransactionState, info *engine.TxnInfo) {
	out.State = stateName(info.State)
	out.TimeoutMillis = int32(info.Timeout / time.Millisecond)
	out.ProducerID, out.ProducerEpoch = info.ID, info.Epoch
	if info.Started > 0 {
		out.StartTimestamp = millis(info.Started)
	}
	parts := slices.Clone(info.Partitions)
	slices.SortFunc(parts, func(a, b engine.PartitionRef) int { return strings.Compare(a.Queue, b.Queue) })
	for _, p := range parts {
		n, err := strconv.ParseInt(p.Partition, 10, 32)
		if err != nil {
			continue // not one that clients can address
		}
		if k := len(out.Topics); k == 0 || out.Topics[k-1].Topic != p.Queue {
			t := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
			t.Topic = p.Queue
			out.Topics = append(out.Topics, t)
		}
		t := &out.Topics[len(out.Topics)-1]
		t.Partitions = append(t.Partitions, int32(n))
	}
}

// stateName is how clients call a state.
func stateName(s engine.TxnState) string {
	switch s {
	case engine.TxnEmpty:
		return "Empty"
	case engine.TxnOngoing:
		return "Ongoing"
	case engine.TxnCommitted:
		return "CompleteCommit"
	case engine.TxnAborted:
		return "CompleteAbort"
	}
	return "Unknown"
}

// refuseDescribeTransactions gives every id one code.
func refuseDescribeTransactions(r *request, code int16) kmsg.Response {
	req := r.req.(*kmsg.DescribeTransactionsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
	for _, id := range req.TransactionalIDs {
		t := kmsg.NewDescribeTransactionsResponseTransactionState()
		t.TransactionalID, t.ErrorCode, t.StartTimestamp, t.ProducerID, t.ProducerEpoch = id, code, -1, -1, -1
		resp.TransactionStates = append(resp.TransactionStates, t)
	}
	return resp
}
