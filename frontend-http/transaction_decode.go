package frontendhttp

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-faster/jx"

	"queen/engine"
	"queen/engine/format"
)

// maxPositions bounds the positions of one transaction (S-txn-18).
const maxPositions = 16384

// refusedTxn is a transaction that is refused before it is tried, or rolled back: the transaction's own body.
type refusedTxn struct {
	status         int
	reason, detail string
	lost           *engine.FailedOp
	index          int // of lost, in the flat space of results
	minted         format.UUID
}

func (r *refusedTxn) Error() string { return r.detail }

func txnBad(detail string) *refusedTxn {
	return &refusedTxn{status: 400, reason: "bad_request", detail: detail}
}

// element is one result of the flat index space: which op answers it, and which message of an Append.
type element struct {
	kind    byte // 'a' ack, 'p' push
	op      int
	message int
}

// transaction is a decoded call. Batch order: acks, appends, positions, kv, timers; elements tells how the answer
// is laid out. Payloads and values alias the request's body; every other string is a copy.
type transaction struct {
	jx       jx.Decoder
	elements []element
	acks     []engine.Ack
	appends  []engine.Append
	byName   map[string]int // of those behind the first few
	commits  []engine.CommitOffset
	kv       kvBatch
	timers   timerBatch
	required []string
	batch    []engine.Op // all of them, in order
	results  []engine.Result
	minted   format.UUID // the transaction's name, once it was proposed

	ms    jsonObject // an element of one of the arrays
	inner jx.Decoder // of the items of a push
	item  jsonObject // one of these
	text  text
	hint  int // bytes of strings that a body of this length may hold
}

// keptMembers is how many members an object may have had whose room is kept.
const keptMembers = 64

// reset forgets the request but keeps the room.
func (t *transaction) reset() {
	if max(cap(t.elements), cap(t.commits), cap(t.batch)) > keptItems || len(t.byName) > 0 || max(cap(t.ms), cap(t.item)) > keptMembers {
		*t = transaction{}
		return
	}
	for i := range t.appends {
		a := &t.appends[i]
		clear(a.Messages)
		*a = engine.Append{Messages: a.Messages[:0]}
	}
	clear(t.acks)
	clear(t.commits)
	clear(t.kv.ops)
	clear(t.kv.names)
	clear(t.batch)
	clear(t.results)
	clear(t.ms[:cap(t.ms)])
	clear(t.item[:cap(t.item)])
	*t = transaction{
		elements: t.elements[:0], acks: t.acks[:0], appends: t.appends[:0], commits: t.commits[:0], batch: t.batch[:0],
		results: t.results[:0], kv: kvBatch{ops: t.kv.ops[:0], names: t.kv.names[:0]}, ms: t.ms[:0], item: t.item[:0],
	}
}

// decode reads the body; the error is a *refusedTxn, or a *keyedRefusal made one by the caller.
func (t *transaction) decode(body []byte, now format.Wall) error {
	if !utf8.Valid(body) {
		return txnBad("the body is not UTF-8")
	}
	t.kv.transaction, t.timers.now = true, now
	t.jx.ResetBytes(body)
	t.hint = len(body) / 4
	obj, err := t.jx.ObjIter()
	if err != nil {
		return txnBad("the body must be an object")
	}
	for obj.Next() {
		key := string(obj.Key())
		switch key {
		case "operations", "kv", "timers", "positions", "requiredLeases":
			if err := t.list(key); err != nil {
				return err
			}
		default:
			if err := t.jx.Skip(); err != nil {
				return txnBad(err.Error())
			}
		}
	}
	if err := obj.Err(); err != nil {
		return txnBad(err.Error())
	}
	if atEnd(&t.jx) != nil {
		return txnBad("something follows the object")
	}
	if len(t.elements)+len(t.commits)+len(t.kv.ops)+len(t.timers.ops) == 0 {
		return &refusedTxn{status: 200, reason: "bad_request", detail: "the transaction has no parts"}
	}
	t.lendLeases()
	return nil
}

// list reads one of the arrays.
func (t *transaction) list(key string) error {
	if t.jx.Next() == jx.Null {
		return t.jx.Skip()
	}
	arr, err := t.jx.ArrIter()
	if err != nil {
		return txnBad(key + " must be an array")
	}
	for n := 0; arr.Next(); n++ {
		if key == "requiredLeases" {
			b, ok, err := stringOrNull(&t.jx, key, n)
			if err != nil || !ok {
				return txnBad("requiredLeases must hold strings")
			}
			t.required = append(t.required, string(b))
			continue
		}
		if t.ms, err = t.ms.object(&t.jx); err != nil {
			return txnBad(fmt.Sprintf("%s[%d] is not an object", key, n))
		}
		if err := t.part(key, t.ms); err != nil {
			return err
		}
	}
	if err := arr.Err(); err != nil {
		return txnBad(err.Error())
	}
	return nil
}

func (t *transaction) part(key string, ms jsonObject) error {
	switch key {
	case "kv":
		if len(t.kv.ops) == kvTxnOps {
			return kvBad("kv_too_many_ops", "more than 64 kv operations in one transaction")
		}
		return orNil(t.kv.add(ms))
	case "timers":
		if len(t.timers.ops) == timerOps {
			return timersBad("timers_too_many_ops", "more than 256 timer operations in one transaction")
		}
		return orNil(t.timers.add(ms))
	case "positions":
		return t.position(ms)
	}
	kind, _ := ms.text("type")
	switch kind {
	case "ack":
		return t.ack(ms)
	case "push":
		return t.push(ms)
	}
	return txnBad("operations take type ack or push, not " + kind)
}

// ack reads one acknowledgment (S-txn-5).
func (t *transaction) ack(ms jsonObject) error {
	a := engine.Ack{Status: format.AckCompleted}
	id, okID := ms.view("transactionId")
	part, okPart := ms.view("partitionId")
	group, okGroup := ms.view("consumerGroup")
	lease, okLease := ms.view("leaseId")
	status, okStatus := ms.view("status")
	reason, okReason := ms.view("error")
	if !okID || !okPart || !okGroup || !okLease || !okStatus || !okReason {
		return txnBad("the members of an ack must be strings")
	}
	if a.Partition = partitionID(string(part)); a.Partition == 0 {
		return &refusedTxn{status: 200, reason: "bad_request", detail: "partitionId must be digits as a pop gave them"}
	}
	a.TransactionID, a.Group = t.text.copy(id, t.hint), t.text.copy(group, t.hint)
	a.Lease, a.Reason = t.text.copy(lease, t.hint), t.text.copy(reason, t.hint)
	if raw := ms.get("offset"); !absent(raw) && len(id) == 0 {
		n, ok := wholeNumber(raw)
		if !ok || n < 0 {
			return txnBad("offset must be an integer of 0 or more")
		}
		a.Offset, a.HasOffset = format.Offset(n), true
	}
	if status != nil {
		var known bool
		if a.Status, known = ackStatuses[string(status)]; !known {
			return &refusedTxn{status: 200, reason: "rejected_ack", detail: "bad_status: unknown ack status " + string(status)}
		}
	}
	t.elements = append(t.elements, element{kind: 'a', op: len(t.acks)})
	t.acks = append(t.acks, a)
	return nil
}

// lendLeases gives acks without a lease the one that the call agrees on (S-txn-6).
func (t *transaction) lendLeases() {
	lent := ""
	agree := true
	take := func(lease string) {
		if lease != "" && lent != "" && lease != lent {
			agree = false
		}
		if lease != "" {
			lent = lease
		}
	}
	for _, l := range t.required {
		take(l)
	}
	if len(t.required) > 0 {
		for i := range t.acks {
			take(t.acks[i].Lease)
		}
	}
	for i := range t.acks {
		a := &t.acks[i]
		if a.Lease == "" && agree && len(t.required) > 0 {
			a.Lease = lent
		}
		a.Unfenced = a.Lease == ""
	}
}

// push reads a push op: items, or one item on the op itself.
func (t *transaction) push(ms jsonObject) error {
	raw := ms.get("items")
	if absent(raw) {
		return t.message(ms)
	}
	t.inner.ResetBytes(raw)
	arr, err := t.inner.ArrIter()
	if err != nil {
		return txnBad("items must be an array")
	}
	for arr.Next() {
		if t.item, err = t.item.object(&t.inner); err != nil {
			return txnBad("an item of a push is not an object")
		}
		if err := t.message(t.item); err != nil {
			return err
		}
	}
	if err := arr.Err(); err != nil {
		return txnBad(err.Error())
	}
	return nil
}

// message reads one item of a push.
func (t *transaction) message(ms jsonObject) error {
	queue, okQueue := ms.view("queue")
	payload := ms.get("payload")
	if payload == nil {
		payload = ms.get("data")
	}
	if !okQueue || queue == nil || payload == nil {
		return &refusedTxn{status: 200, reason: "bad_request", detail: "a pushed item needs queue and payload"}
	}
	partition, okPart := ms.view("partition")
	id, okID := ms.view("transactionId")
	if !okPart || !okID {
		return txnBad("partition and transactionId must be strings")
	}
	if partition == nil {
		partition = defaultPartition
	}
	if len(id) > format.MaxTransactionID {
		return badRequest("transactionId exceeds 65535 bytes")
	}
	if err := checkNames(len(queue), len(partition)); err != nil {
		return err
	}
	m := engine.Message{TransactionID: t.text.copy(id, t.hint), Payload: payload[:len(payload):len(payload)]}
	if trace, ok := ms.text("traceId"); ok {
		m.TraceID, _ = format.ParseUUID(trace)
	}
	at := t.appendFor(queue, partition)
	a := &t.appends[at]
	t.elements = append(t.elements, element{kind: 'p', op: at, message: len(a.Messages)})
	a.Messages = append(a.Messages, m)
	return nil
}

// fewAppends is how many ops are looked through for a destination: few destinations are the rule.
const fewAppends = 8

// appendFor is the op of a (queue, partition), made when there is none yet.
func (t *transaction) appendFor(queue, partition []byte) int {
	n := len(t.appends)
	for i := range min(n, fewAppends) {
		if t.appends[i].Queue == string(queue) && t.appends[i].Partition == string(partition) {
			return i
		}
	}
	if n >= fewAppends {
		name := strconv.Itoa(len(queue)) + " " + string(queue) + string(partition)
		if at, ok := t.byName[name]; ok {
			return at
		}
		if t.byName == nil {
			t.byName = map[string]int{}
		}
		t.byName[name] = n
	}
	if n < cap(t.appends) {
		t.appends = t.appends[:n+1] // it may have room for messages from a call before
	} else {
		t.appends = append(t.appends, engine.Append{})
	}
	a := &t.appends[n]
	a.Queue, a.Partition = t.text.copy(queue, t.hint), t.text.copy(partition, t.hint)
	return n
}

// position reads an offset commit (S-txn-18).
func (t *transaction) position(ms jsonObject) error {
	if len(t.commits) == maxPositions {
		return &refusedTxn{status: 200, reason: "too_large", detail: "more than 16384 positions in one transaction"}
	}
	var p engine.CommitOffset
	var okQueue, okGroup, okPart, okMeta, okMode bool
	var mode string
	p.Queue, okQueue = ms.text("queue")
	p.Group, okGroup = ms.text("consumerGroup")
	p.Partition, okPart = ms.textOr("partition", format.DefaultPartition)
	p.Metadata, okMeta = ms.textOr("metadata", "")
	mode, okMode = ms.textOr("subscriptionMode", "")
	if !okQueue || !okGroup || !okPart || !okMeta || !okMode || p.Queue == "" || p.Group == "" {
		return &refusedTxn{status: 200, reason: "bad_request", detail: "a position needs queue and consumerGroup"}
	}
	if len(p.Metadata) > 4096 {
		return &refusedTxn{status: 200, reason: "too_large", detail: "metadata exceeds 4096 bytes"}
	}
	p.Start = format.StartNew
	if strings.EqualFold(mode, "all") {
		p.Start = format.StartAll
	}
	switch raw := ms.get("offset"); {
	case raw == nil:
		return &refusedTxn{status: 200, reason: "bad_request", detail: "a position needs offset"}
	case absent(raw):
		p.Forget = true
	default:
		n, ok := wholeNumber(raw)
		if !ok || n < 0 {
			return &refusedTxn{status: 200, reason: "bad_request", detail: "offset must be an integer of 0 or more"}
		}
		p.Offset = format.Offset(n)
	}
	t.commits = append(t.commits, p)
	return nil
}
