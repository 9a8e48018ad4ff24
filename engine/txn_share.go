package engine

import (
	"strconv"

	"queen/engine/format"
)

// txnShare is what the partitions of transactions of one tenant may take of the room that all tenants of a raft group share:
// as much as is left for all. So none can take so much that the others have nothing: one alone has half, the second a half of
// that. Apply knows the bound for all only, which keeps its verdicts those of before.
type txnShare struct{ most int }

// check refuses that many more partitions of a tenant. Calls that come together are judged apart, so a tenant may pass its
// share by what they bring.
func (s txnShare) check(n *Node, t format.Tenant, more int) *Error {
	if more == 0 {
		return nil
	}
	n.state.RLock()
	own, all := n.state.m.TxnPartitions(t)
	n.state.RUnlock()
	if own+more <= s.most-all {
		return nil
	}
	return s.refusal(all)
}

// checkBatch refuses a batch that would bring its partition into a transaction.
func (s txnShare) checkBatch(n *Node, a *format.Append) *Error {
	n.state.RLock()
	defer n.state.RUnlock()
	own, all := n.state.m.TxnPartitions(a.Tenant)
	if own+1 <= s.most-all || n.state.m.InTxn(a) {
		return nil
	}
	return s.refusal(all)
}

func (s txnShare) refusal(all int) *Error {
	return &Error{Code: CodeQuotaExceeded, Field: "partitions",
		Limit: strconv.Itoa(max(0, s.most-all)) + " partitions of the tenant in open and aborted transactions, as many as are free of " +
			strconv.Itoa(s.most),
		Message: "the tenant has no more room for partitions in transactions: end what is open, or keep what was aborted for a shorter time"}
}
