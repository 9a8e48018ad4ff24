package frontendhttp

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/go-faster/jx"

	"queen/engine"
	"queen/engine/format"
)

// ackBody is a decoded ack call: one op per item, in request order. Strings are copies.
type ackBody struct {
	jx      jx.Decoder
	acks    []engine.Ack
	ops     []engine.Op
	results []engine.Result // memory for the answer
	group   string
	text    text
	hint    int
}

func (a *ackBody) reset() {
	if cap(a.acks) > keptItems {
		*a = ackBody{}
		return
	}
	clear(a.acks)
	clear(a.results)
	a.acks, a.ops, a.results, a.group = a.acks[:0], a.ops[:0], a.results[:0], ""
	a.text.reset()
	a.jx.ResetBytes(nil)
}

// ackStatuses are the accepted statuses; absent and null are completed (S-ack-17). Any other is refused for its item
// by the engine, which then moves nothing.
var ackStatuses = map[string]format.AckStatus{
	"completed": format.AckCompleted, "success": format.AckCompleted, "acked": format.AckCompleted,
	"ok": format.AckCompleted, "retry": format.AckRetry, "failed": format.AckFailed, "dlq": format.AckDLQ,
}

// single decodes the body of POST /api/v1/ack: one item with its group beside it.
func (a *ackBody) single(body []byte) error {
	if err := a.begin(body); err != nil {
		return err
	}
	if err := a.item(true); err != nil {
		return err
	}
	return a.finish()
}

// batch decodes the body of POST /api/v1/ack/batch: items, and one group for all of them.
func (a *ackBody) batch(body []byte) error {
	if err := a.begin(body); err != nil {
		return err
	}
	obj, err := a.jx.ObjIter()
	if err != nil {
		return badBody(err.Error())
	}
	found := false
	for obj.Next() {
		switch string(obj.Key()) {
		case "acknowledgments":
			if found {
				return badBody("acknowledgments is there twice")
			}
			found = true
			if err := a.items(); err != nil {
				return err
			}
		case "consumerGroup":
			b, err := a.str("consumerGroup")
			if err != nil {
				return err
			}
			a.group = groupName(string(b))
		default:
			if err := a.jx.Skip(); err != nil {
				return badBody(err.Error())
			}
		}
	}
	if err := obj.Err(); err != nil {
		return badBody(err.Error())
	}
	if !found {
		return badBody("acknowledgments is missing")
	}
	return a.finish()
}

func (a *ackBody) begin(body []byte) error {
	if !utf8.Valid(body) {
		return badBody("not UTF-8")
	}
	a.jx.ResetBytes(body)
	a.hint = len(body)
	return nil
}

// finish checks what is true of the whole call and makes the ops.
func (a *ackBody) finish() error {
	if err := atEnd(&a.jx); err != nil {
		return err
	}
	if err := checkNames(0, len(a.group)); err != nil {
		return err
	}
	for i := range a.acks {
		a.acks[i].Group = a.group
		a.ops = append(a.ops, &a.acks[i])
	}
	return nil
}

func (a *ackBody) items() error {
	arr, err := a.jx.ArrIter()
	if err != nil {
		return badBody("acknowledgments must be an array")
	}
	for arr.Next() {
		if len(a.acks) == maxItems {
			return badRequest("more than 1048576 acknowledgments in one call")
		}
		if err := a.item(false); err != nil {
			return err
		}
	}
	if err := arr.Err(); err != nil {
		return badBody(err.Error())
	}
	return nil
}

// item decodes one acknowledgment. An offset counts only where no transactionId is given.
func (a *ackBody) item(withGroup bool) error {
	obj, err := a.jx.ObjIter()
	if err != nil {
		return badBody(fmt.Sprintf("acknowledgment %d is not an object", len(a.acks)))
	}
	ack := engine.Ack{Status: format.AckCompleted}
	var bad error
	var b []byte
	for obj.Next() && bad == nil {
		switch string(obj.Key()) {
		case "transactionId":
			if b, bad = a.str("transactionId"); bad == nil {
				ack.TransactionID = a.text.copy(b, a.hint/2)
			}
		case "partitionId":
			if b, bad = a.str("partitionId"); bad == nil {
				ack.Partition = partitionID(string(b))
			}
		case "status":
			if b, bad = a.str("status"); bad == nil && b != nil {
				ack.Status = ackStatuses[string(b)]
			}
		case "leaseId":
			if b, bad = a.str("leaseId"); bad == nil {
				ack.Lease = a.lease(b)
			}
		case "error":
			if b, bad = a.str("error"); bad == nil {
				ack.Reason = a.text.copy(b, a.hint/2)
			}
		case "offset":
			ack.Offset, ack.HasOffset, bad = a.offset()
		case "consumerGroup":
			if b, bad = a.str("consumerGroup"); bad == nil && withGroup {
				a.group = groupName(string(b))
			}
		default:
			if err := a.jx.Skip(); err != nil {
				bad = badBody(err.Error())
			}
		}
	}
	if err := obj.Err(); err != nil && bad == nil {
		bad = badBody(err.Error())
	}
	ack.Unfenced = ack.Lease == ""
	ack.HasOffset = ack.HasOffset && ack.TransactionID == ""
	a.acks = append(a.acks, ack)
	return bad
}

// str reads a string; null is nil, and "" is not.
func (a *ackBody) str(key string) ([]byte, error) {
	b, _, err := stringOrNull(&a.jx, key, len(a.acks))
	return b, err
}

// lease copies a lease id once for a run of items that share it.
func (a *ackBody) lease(b []byte) string {
	if n := len(a.acks); n > 0 && a.acks[n-1].Lease == string(b) {
		return a.acks[n-1].Lease
	}
	return a.text.copy(b, a.hint/2)
}

func (a *ackBody) offset() (format.Offset, bool, error) {
	if a.jx.Next() == jx.Null {
		if err := a.jx.Null(); err != nil {
			return 0, false, badBody(err.Error())
		}
		return 0, false, nil
	}
	n, err := a.jx.UInt64()
	if err != nil {
		return 0, false, badBody("offset must be an integer of 0 or more")
	}
	return format.Offset(n), true, nil
}

// partitionID reads the digits we issue; anything else is 0, which no partition has (S-ack-23).
func partitionID(s string) format.PartitionID {
	if s == "" || s[0] < '1' || s[0] > '9' {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return format.PartitionID(n)
}
