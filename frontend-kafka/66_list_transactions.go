package frontendkafka

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
)

// ListTransactions, 0 to 2: transactional ids by state and producer. v1 names how long they are open at least, v2 a
// pattern of the ids.
func listTransactionsAPI() *api {
	return &api{key: 66, min: 0, max: 2, level: auth.LevelReadOnly, handle: listTransactions, refuse: refuseListTransactions}
}

// txnStates are the names that a filter may have. Two are of states that nothing is in here: an end is one step.
var txnStates = []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}

// listTransactionsMax bounds an answer.
const listTransactionsMax = 100_000

func listTransactions(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ListTransactionsRequest)
	resp := req.ResponseKind().(*kmsg.ListTransactionsResponse)
	for _, s := range req.StateFilters {
		if !slices.Contains(txnStates, s) {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, s)
		}
	}
	var pattern *regexp.Regexp
	if p := req.TransactionalIDPattern; p != nil && *p != "" {
		var err error
		if pattern, err = regexp.Compile("^(?:" + *p + ")$"); err != nil {
			resp.ErrorCode = kerr.InvalidRegularExpression.Code
			return resp, nil
		}
	}
	now := c.f.now()
	for after := ""; ; {
		rows, next, err := c.f.engine.Records().Transactions(ctx, c.caller(), after, 1000)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			t := &rows[i]
			if pattern != nil && !pattern.MatchString(t.TransactionalID) || !listedTxn(req, t, int64(now)) {
				continue
			}
			out := kmsg.NewListTransactionsResponseTransactionState()
			out.TransactionalID, out.ProducerID, out.TransactionState = t.TransactionalID, t.ID, stateName(t.State)
			resp.TransactionStates = append(resp.TransactionStates, out)
		}
		if next == "" || len(resp.TransactionStates) >= listTransactionsMax {
			return resp, nil
		}
		after = next
	}
}

// listedTxn tells whether a transaction is one of those asked for.
func listedTxn(req *kmsg.ListTransactionsRequest, t *engine.TxnInfo, now int64) bool {
	switch {
	case len(req.StateFilters) > 0 && !slices.Contains(req.StateFilters, stateName(t.State)):
		return false
	case len(req.ProducerIDFilters) > 0 && !slices.Contains(req.ProducerIDFilters, t.ID):
		return false
	case req.Version >= 1 && req.DurationFilterMillis >= 0:
		return t.State == engine.TxnOngoing && now-int64(t.Started) >= req.DurationFilterMillis*int64(time.Millisecond/time.Microsecond)
	}
	return true
}

func refuseListTransactions(r *request, code int16) kmsg.Response {
	resp := r.req.ResponseKind().(*kmsg.ListTransactionsResponse)
	resp.ErrorCode = code
	return resp
}
