package frontendhttp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"queen/engine"
	"queen/engine/format"
)

// cycleBody is the body of POST /streams/v1/cycle.
type cycleBody struct {
	Query     string `json:"query_id"`
	Partition string `json:"partition_id"`
	Group     string `json:"consumer_group"`
	StateOps  []struct {
		Type  string          `json:"type"`
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	} `json:"state_ops"`
	Push []struct {
		Queue         string          `json:"queue"`
		Partition     string          `json:"partition"`
		Payload       json.RawMessage `json:"payload"`
		Data          json.RawMessage `json:"data"`
		TransactionID string          `json:"transactionId"`
		MessageID     string          `json:"messageId"`
	} `json:"push_items"`
	Ack *struct {
		TransactionID string `json:"transactionId"`
		Lease         string `json:"leaseId"`
		Status        string `json:"status"`
		Error         string `json:"error"`
		Count         uint64 `json:"count"`
	} `json:"ack"`
	Release *bool `json:"release_lease"`
}

// cycle answers POST /streams/v1/cycle: 200 for what was carried out and for what was refused (S-str-3).
func cycle(c *call) error {
	var in cycleBody
	if err := c.decode(&in); err != nil {
		return err
	}
	if len(in.StateOps) > cycleOps || len(in.Push) > cycleOps {
		return &streamFailure{413, "more than 10000 state ops or pushed items in one cycle"}
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	p, ok, err := c.streamPartition(ctx, in.Query, in.Partition)
	if err != nil {
		return err
	}
	if !ok {
		return &streamFailure{200, "unknown query"}
	}
	run := cycleRun{c: c, in: &in, p: &p}
	if err := run.build(ctx); err != nil {
		return err
	}
	results, err := run.commit(ctx)
	if err != nil {
		return err
	}
	run.answer(results)
	return nil
}

// cycleRun is one cycle under way. Ops: the ack if there is one, then pushes, then state.
type cycleRun struct {
	c       *call
	in      *cycleBody
	p       *streamPartition
	ack     *engine.Ack
	ended   bool // the ack completes the whole batch, or gives it back
	acked   uint64
	appends []engine.Append
	places  []element // of the pushed items, in order
	state   []engine.KV
}

func (r *cycleRun) build(ctx context.Context) error {
	if err := r.buildAck(ctx); err != nil {
		return err
	}
	if r.ack != nil && r.ack.Status != format.AckCompleted {
		return nil // a batch that failed commits nothing (S-str-6)
	}
	if err := r.buildPush(); err != nil {
		return err
	}
	return r.buildState(ctx)
}

// buildAck turns the ack into one of an offset: of the last of the batch, or of the count-th (S-str-4).
func (r *cycleRun) buildAck(ctx context.Context) error {
	a := r.in.Ack
	if a == nil {
		return nil
	}
	lease, live, err := r.c.engine.Inspect().Lease(ctx, r.c.caller, a.Lease, r.p.id)
	if err != nil {
		return err
	}
	group := r.in.Group
	if !live || lease.Group != group && !(group == "" && lease.Group == format.QueueMode) {
		return &streamFailure{200, "lease_invalid: the lease is over, or another group's"}
	}
	ack := &engine.Ack{Partition: r.p.id, Group: r.in.Group, Lease: a.Lease, HasOffset: true, Status: format.AckCompleted,
		Reason: a.Error}
	status := a.Status
	if status == "" {
		status = "completed"
	}
	switch keep := r.in.Release != nil && !*r.in.Release; {
	case ackStatuses[status] != format.AckCompleted:
		ack.Status, ack.Offset = format.AckFailed, lease.First
		r.ended = true
	case keep && a.Count == 0:
		return nil // nothing of the batch was used: the lease stays as it is
	case keep:
		if a.Count > uint64(lease.End-lease.First) {
			return &streamFailure{200, "ack.count is larger than what is left of the batch"}
		}
		ack.Offset = lease.First + format.Offset(a.Count) - 1
		r.acked, r.ended = a.Count, ack.Offset+1 == lease.End
	default:
		ack.Offset = lease.End - 1
		r.acked, r.ended = a.Count, true
		if a.Count == 0 {
			r.acked = uint64(lease.End - lease.First)
		}
	}
	r.ack = ack
	return nil
}

func (r *cycleRun) buildPush() error {
	var t transaction
	for i := range r.in.Push {
		it := &r.in.Push[i]
		if it.Queue == "" {
			continue // skipped, as clients of the first version expect (S-str-7)
		}
		payload := it.Payload
		if payload == nil {
			payload = it.Data
		}
		if payload == nil {
			payload = json.RawMessage("{}")
		}
		partition := it.Partition
		if partition == "" {
			partition = format.DefaultPartition
		}
		if it.TransactionID == "" {
			it.TransactionID = it.MessageID // the id of a message is its default; ids of messages are the broker's here
		}
		if len(it.TransactionID) > format.MaxTransactionID {
			return badRequest("transactionId exceeds 65535 bytes")
		}
		if err := checkNames(len(it.Queue), len(partition)); err != nil {
			return err
		}
		at := t.appendFor([]byte(it.Queue), []byte(partition))
		a := &t.appends[at]
		r.places = append(r.places, element{kind: 'p', op: at, message: len(a.Messages)})
		a.Messages = append(a.Messages, engine.Message{TransactionID: it.TransactionID, Payload: payload})
	}
	r.appends = t.appends
	return nil
}

// buildState makes the state ops. An idle flush has no lease to fence it: each row that it deletes must still be as it
// was read, so that of two flushers one emits a window.
func (r *cycleRun) buildState(ctx context.Context) error {
	seen := map[string]int{}
	var deleted []string
	for i := range r.in.StateOps {
		op := &r.in.StateOps[i]
		kv := engine.KV{Namespace: stateNamespace, Key: r.p.prefix + op.Key}
		switch op.Type {
		case "upsert":
			if op.Value == nil {
				op.Value = json.RawMessage("null")
			}
			kv.Kind, kv.Value = engine.KVPut, compact(op.Value)
		case "delete":
			kv.Kind = engine.KVDelete
			deleted = append(deleted, kv.Key)
		default:
			return &streamFailure{200, "unknown state op type " + op.Type}
		}
		if at, again := seen[kv.Key]; again {
			r.state[at] = kv // the last one counts
			continue
		}
		seen[kv.Key] = len(r.state)
		r.state = append(r.state, kv)
	}
	if r.in.Ack != nil || len(deleted) == 0 {
		return nil
	}
	items, err := r.c.engine.Keyed().KV(ctx, r.c.caller, []engine.KV{{Kind: engine.KVGetMany, Namespace: stateNamespace,
		Keys: deleted}})
	if err != nil {
		return err
	}
	if len(items[0].Missing) > 0 {
		return &streamFailure{200, "another flush was faster: a row that this one deletes is gone"}
	}
	for i := range items[0].Rows {
		if kv := &r.state[seen[items[0].Rows[i].Key]]; kv.Kind == engine.KVDelete {
			kv.HasExpect, kv.Expect, kv.Required = true, items[0].Rows[i].Version, true
		}
	}
	return nil
}

func (r *cycleRun) commit(ctx context.Context) ([]engine.Result, error) {
	var ops []engine.Op
	if r.ack != nil {
		ops = append(ops, r.ack)
	}
	for i := range r.appends {
		ops = append(ops, &r.appends[i])
	}
	for i := range r.state {
		ops = append(ops, &r.state[i])
	}
	if len(ops) == 0 {
		return nil, nil
	}
	results, err := r.c.engine.Do(ctx, r.c.caller, engine.Batch{Ops: ops, Atomic: true, KeepDuplicates: true})
	var e *engine.Error
	if errors.As(err, &e) && e.Failed != nil {
		text := txnReasons[e.Code]
		if e.Code == engine.CodeKVPrecondition {
			text = "another flush was faster"
		}
		return nil, &streamFailure{200, text + ": " + e.Message}
	}
	return results, err
}

func (r *cycleRun) answer(results []engine.Result) {
	o := out{r.c.buffer()}
	o.open('{')
	o.bool("success", true)
	o.str("query_id", r.in.Query)
	o.str("partition_id", r.in.Partition)
	o.str("queueName", r.p.queue)
	o.num("state_ops_applied", int64(len(r.state)))
	o.key("push_results").open('[')
	pushed := results
	if r.ack != nil {
		pushed = results[1:]
	}
	for _, e := range r.places {
		m := &pushed[e.op].Messages[e.message]
		o.open('{')
		o.str("queue", r.appends[e.op].Queue)
		o.str("partition", r.appends[e.op].Partition)
		o.str("status", map[bool]string{true: "duplicate", false: "queued"}[m.Status == engine.Duplicate])
		o.key("baseOffset")
		o.b = strconv.AppendUint(o.b, uint64(m.Offset), 10)
		o.close('}')
	}
	o.close(']')
	if r.in.Ack == nil {
		o.null("ack_result")
	} else {
		o.key("ack_result").open('{')
		o.bool("success", r.ack == nil || r.ack.Status == format.AckCompleted)
		o.count("count", r.acked)
		o.bool("lease_released", r.ended)
		o.bool("dlq", r.ack != nil && results[0].Ack.Filed)
		o.close('}')
	}
	o.close('}')
	r.c.send(200, o.b)
}
