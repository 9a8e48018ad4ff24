package frontendmcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
)

// writes is a row of a tool that changes something.
func writes(mode Mode, level auth.Level, t tool) tool {
	t.mode, t.level = mode, level
	return t
}

func writeTools() []*tool {
	produce := func(t tool) tool { return writes(ModeWrite, auth.LevelWriteOnly, t) }
	change := func(t tool) tool { return writes(ModeWrite, auth.LevelReadWrite, t) }
	admin := func(t tool) tool { return writes(ModeAdmin, auth.LevelAdmin, t) }
	return []*tool{
		row(produce(tool{name: "message_push", title: "Push messages", toolset: "messages", idempotent: true,
			text: "Appends messages to a partition. The same transaction_id again is a no-op."}), pushMessages),
		row(change(tool{name: "queue_create", title: "Create a queue", toolset: "queues", idempotent: true,
			text: "Creates a queue with options; one that is there stays as it is."}), queueCreate),
		row(change(tool{name: "queue_configure", title: "Configure a queue", toolset: "queues", destructive: true, idempotent: true,
			text: "Changes options of a queue. dry_run is true unless told otherwise and shows the difference."}), queueConfigure),
		row(admin(tool{name: "queue_delete", title: "Delete a queue", toolset: "queues", destructive: true, idempotent: true,
			text: "Deletes a queue with its messages, consumer groups and dead letters."}), queueDelete),
		row(change(tool{name: "group_seek", title: "Move a consumer group", toolset: "groups", destructive: true, idempotent: true,
			text: "Moves the cursor of a consumer group to an offset, a time, the beginning or the end."}), groupSeek),
		row(admin(tool{name: "group_delete", title: "Delete a consumer group", toolset: "groups", destructive: true, idempotent: true,
			text: "Forgets a consumer group on a queue: its next pop begins anew."}), groupDelete),
		row(admin(tool{name: "partition_purge", title: "Purge a partition", toolset: "queues", destructive: true, idempotent: true,
			text: "Removes what a partition holds now. The partition, its offsets and its dead letters stay."}), partitionPurge),
		row(admin(tool{name: "leader_transfer", title: "Hand over the lead", toolset: "ops", destructive: true, idempotent: true,
			text: "Has another node of the cluster lead, all raft groups or one. Writes wait for a moment."}), leaderTransfer),
		row(admin(tool{name: "node_drain", title: "Drain a node", toolset: "ops", destructive: true, idempotent: true,
			text: "Has a node of the cluster drain, as before it is stopped: it is not ready and gives the lead away, over restarts too; or ends that."}), nodeDrain),
		row(admin(tool{name: "maintenance_set", title: "Switch families on or off", toolset: "ops", destructive: true, idempotent: true,
			text: "Switches writes of keys, new timers or the firing of timers on or off, for the whole node."}), maintenanceSet),
	}
}

type pushMessage struct {
	TransactionID string            `json:"transaction_id" jsonschema:"dedup key"`
	Payload       any               `json:"payload,omitempty" jsonschema:"any JSON value, stored as it is written here"`
	Base64        string            `json:"payload_base64,omitempty" jsonschema:"bytes instead of payload"`
	ContentType   string            `json:"content_type,omitempty" jsonschema:"of payload_base64"`
	Headers       map[string]string `json:"headers,omitempty"`
}

type pushArgs struct {
	Queue     string        `json:"queue"`
	Partition string        `json:"partition"`
	Messages  []pushMessage `json:"messages" jsonschema:"1 to 100"`
}

type pushRow struct {
	TransactionID string  `json:"transaction_id"`
	Status        string  `json:"status" jsonschema:"queued, duplicate or refused"`
	Offset        *string `json:"offset"`
	ID            string  `json:"id,omitempty"`
	Error         string  `json:"error,omitempty"`
}

type pushResult struct {
	Meta
	Results []pushRow `json:"results"`
}

func pushMessages(c *call, in pushArgs) (out pushResult, err error) {
	if len(in.Messages) == 0 || len(in.Messages) > 100 {
		return out, &toolError{Code: "bad_request", Message: "messages is out of its bounds", Field: "messages", Limit: "1..100"}
	}
	// What was written is pushed, not what became of it in decoding: numbers keep their digits.
	var raw struct {
		Messages []struct {
			Payload json.RawMessage `json:"payload"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(c.req.Params.Arguments, &raw); err != nil || len(raw.Messages) != len(in.Messages) {
		return out, badArgument("messages", "messages is no list of messages")
	}
	op := &engine.Append{Queue: in.Queue, Partition: in.Partition}
	for i := range in.Messages {
		m, err := in.Messages[i].message(raw.Messages[i].Payload)
		if err != nil {
			return out, err
		}
		op.Messages = append(op.Messages, m)
	}
	res, err := c.engine.Do(c.ctx, c.caller, engine.Batch{Ops: []engine.Op{op}})
	if err == nil && res[0].Err != nil {
		err = res[0].Err
	}
	if err != nil {
		return out, err
	}
	out.Meta, out.Results = c.meta(), []pushRow{}
	out.Untrusted = true
	for i, m := range res[0].Messages {
		r := pushRow{TransactionID: in.Messages[i].TransactionID, Status: "queued", ID: m.ID.String()}
		at := digits(uint64(m.Offset))
		switch m.Status {
		case engine.Duplicate:
			r.Status = "duplicate"
		case engine.Refused:
			r.Status, r.ID = "refused", ""
			if m.Err != nil {
				r.Error = string(m.Err.Code)
			}
		}
		if m.Status == engine.Queued {
			r.Offset = &at
		}
		out.Results = append(out.Results, r)
	}
	return out, nil
}

func (m *pushMessage) message(raw json.RawMessage) (engine.Message, error) {
	out := engine.Message{TransactionID: m.TransactionID}
	if m.TransactionID == "" {
		return out, badArgument("transaction_id", "every message needs a transaction_id, so that a repetition is recognised")
	}
	for _, name := range sortedNames(m.Headers) {
		out.Headers = append(out.Headers, engine.Header{Name: name, Value: []byte(m.Headers[name])})
	}
	if m.Base64 == "" {
		if len(raw) == 0 {
			return out, badArgument("payload", "payload or payload_base64 is needed")
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			return out, badArgument("payload", "payload is no JSON")
		}
		out.Payload = compact.Bytes()
		return out, nil
	}
	if len(raw) > 0 {
		return out, badArgument("payload_base64", "payload is there too: only one can count")
	}
	var err error
	if out.Payload, err = base64.StdEncoding.DecodeString(m.Base64); err != nil {
		return out, badArgument("payload_base64", "payload_base64 is no base64")
	}
	out.ContentType = m.ContentType
	if out.ContentType == "" {
		out.ContentType = "application/octet-stream"
	}
	return out, nil
}

func sortedNames(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

type createArgs struct {
	Queue   string         `json:"queue"`
	Options map[string]any `json:"options,omitempty" jsonschema:"names and values as queue_describe shows them"`
}

type createResult struct {
	Meta
	Created bool        `json:"created"`
	Options []optionRow `json:"options"`
}

func queueCreate(c *call, in createArgs) (out createResult, err error) {
	patch, err := patchOf(in.Options)
	if err != nil {
		return out, err
	}
	q, err := c.engine.Catalog().Queue(c.ctx, c.caller, in.Queue)
	switch {
	case err == nil:
	case codeOf(err) != engine.CodeUnknownQueue:
		return out, err
	default:
		if q, err = c.engine.Catalog().Configure(c.ctx, c.caller, engine.ConfigureRequest{Queue: in.Queue, Patch: patch}); err != nil {
			return out, err
		}
		out.Created = true
	}
	out.Meta, out.Options = c.meta(), optionRows(&q.Options)
	out.Untrusted = true
	return out, nil
}

// codeOf is the code of an engine's error; "" when it is none.
func codeOf(err error) engine.ErrorCode {
	if e, ok := err.(*engine.Error); ok {
		return e.Code
	}
	return ""
}

// patchOf reads options by their names.
func patchOf(options map[string]any) (patch format.QueueOptions, err error) {
	for name, v := range options {
		if name == "dlqScope" {
			if v != "batch" && v != "message" {
				return patch, badArgument("options", "option dlqScope must be message or batch")
			}
			patch.DLQScopeBatch = v == "batch"
			patch.Set |= format.OptDLQScope
			continue
		}
		i := slices.IndexFunc(queueOptions, func(o option) bool { return o.key == name })
		if i < 0 {
			return patch, badArgument("options", "there is an option that no queue has: compare with queue_describe")
		}
		o := &queueOptions[i]
		ok := false
		switch at := o.at(&patch).(type) {
		case *int64:
			var n float64
			if n, ok = v.(float64); ok {
				*at = int64(n)
				ok = float64(*at) == n
			}
		case *bool:
			*at, ok = v.(bool)
		case *string:
			*at, ok = v.(string)
		}
		if !ok {
			return patch, badArgument("options", "option "+o.key+" has a value of another type")
		}
		patch.Set |= o.bit
	}
	return patch, nil
}

type configureArgs struct {
	Queue  string         `json:"queue"`
	Set    map[string]any `json:"set,omitempty"`
	Unset  []string       `json:"unset,omitempty" jsonschema:"options that go back to their defaults"`
	DryRun *bool          `json:"dry_run,omitempty" jsonschema:"default true: only shows the difference"`
	Confirming
}

type optionChange struct {
	Option   string `json:"option"`
	From     any    `json:"from"`
	To       any    `json:"to"`
	Effect   string `json:"effect" jsonschema:"what the option is about"`
	Destroys bool   `json:"destroys" jsonschema:"messages may be removed or refused because of it"`
}

type configureResult struct {
	Planned
	Diff []optionChange `json:"diff"`
}

func queueConfigure(c *call, in configureArgs) (out configureResult, err error) {
	q, err := c.engine.Catalog().Queue(c.ctx, c.caller, in.Queue)
	if err != nil {
		return out, err
	}
	r := engine.ConfigureRequest{Queue: in.Queue}
	if r.Patch, err = patchOf(in.Set); err != nil {
		return out, err
	}
	for _, name := range in.Unset {
		if name == "dlqScope" {
			r.Reset |= format.OptDLQScope
			continue
		}
		i := slices.IndexFunc(queueOptions, func(o option) bool { return o.key == name })
		if i < 0 {
			return out, badArgument("unset", "there is an option that no queue has: compare with queue_describe")
		}
		r.Reset |= queueOptions[i].bit
	}
	out.Diff = diffOf(&q.Options, &r)
	if in.DryRun == nil || *in.DryRun {
		out.Meta = c.meta()
		out.Untrusted, out.Hint = true, "Nothing has changed: call again with dry_run false."
		return out, nil
	}
	destroys := slices.ContainsFunc(out.Diff, func(d optionChange) bool { return d.Destroys })
	p := Plan{Action: "configure a queue", Target: map[string]string{"queue": in.Queue}, Counts: map[string]uint64{"options": uint64(len(out.Diff))},
		Reversible: !destroys, Effects: []string{}}
	if destroys {
		p.Effects = append(p.Effects, "Messages may be removed or refused because of the new options.")
	}
	asked, err := c.confirm(in.Confirming, configureArgs{Queue: in.Queue, Set: in.Set, Unset: in.Unset}, in.Queue, p)
	if err != nil || asked != nil {
		return configureResult{Planned: orNone(asked), Diff: out.Diff}, err
	}
	if _, err := c.engine.Catalog().Configure(c.ctx, c.caller, r); err != nil {
		return out, err
	}
	out.Planned = c.done()
	out.Untrusted = true
	return out, nil
}

// orNone is an answer that may be missing beside an error.
func orNone(p *Planned) Planned {
	if p == nil {
		return Planned{}
	}
	return *p
}

// diffOf tells what a configure call would change.
func diffOf(o *format.QueueOptions, r *engine.ConfigureRequest) []optionChange {
	def, out := format.DefaultOptions(true), []optionChange{}
	for i := range queueOptions {
		p := &queueOptions[i]
		from, to := p.value(o), p.value(o)
		switch {
		case r.Patch.Set&p.bit != 0:
			to = p.value(&r.Patch)
		case r.Reset&p.bit != 0:
			to = p.value(&def)
		}
		if from != to || o.Set&p.bit == 0 && r.Patch.Set&p.bit != 0 {
			out = append(out, optionChange{p.key, from, to, p.effect, p.destroys})
		}
	}
	scope := o.DLQScopeBatch
	switch {
	case r.Patch.Set&format.OptDLQScope != 0:
		scope = r.Patch.DLQScopeBatch
	case r.Reset&format.OptDLQScope != 0:
		scope = def.DLQScopeBatch
	}
	if scope != o.DLQScopeBatch {
		out = append(out, optionChange{"dlqScope", dlqScope(o), dlqScope(&format.QueueOptions{DLQScopeBatch: scope}),
			"whether a failure files its message or the whole batch", true})
	}
	return out
}

type queueDeleteArgs struct {
	Queue string `json:"queue"`
	Confirming
}

func queueDelete(c *call, in queueDeleteArgs) (out Planned, err error) {
	q, err := c.engine.Catalog().Queue(c.ctx, c.caller, in.Queue)
	if err != nil {
		return out, err
	}
	groups, err := c.groups(in.Queue, "")
	if err != nil {
		return out, err
	}
	counts := map[string]uint64{"messages": q.Messages, "partitions": q.Partitions, "dead_letters": q.DeadLetters, "groups": uint64(len(groups)),
		"bytes": q.RetainedBytes}
	asked, err := c.confirm(in.Confirming, in.Queue, in.Queue, Plan{Action: "delete a queue", Target: map[string]string{"queue": in.Queue},
		Counts: counts, Effects: []string{"Its messages, consumer groups, timers' targets and dead letters are gone."}})
	if err != nil || asked != nil {
		return orNone(asked), err
	}
	existed, err := c.engine.Catalog().DeleteQueue(c.ctx, c.caller, in.Queue)
	if err != nil {
		return out, err
	}
	if !existed {
		return out, &engine.Error{Code: engine.CodeUnknownQueue}
	}
	return c.doneWith(counts), nil
}

// doneWith is done with what was counted.
func (c *call) doneWith(counts map[string]uint64) Planned {
	out := c.done()
	out.Plan = &Plan{Action: "done", Target: map[string]string{}, Counts: counts, Effects: []string{}}
	return out
}

type seekArgs struct {
	Queue     string `json:"queue"`
	Group     string `json:"group"`
	To        string `json:"to" jsonschema:"beginning, end, an RFC 3339 time, or with partition an offset in digits"`
	Partition string `json:"partition,omitempty" jsonschema:"only this one; default all"`
	Confirming
}

func groupSeek(c *call, in seekArgs) (out Planned, err error) {
	op := &engine.SetOffset{Queue: in.Queue, Group: in.Group, Partition: in.Partition, Whole: in.Partition == ""}
	if op.To, err = seekTarget(in.To, in.Partition != ""); err != nil {
		return out, err
	}
	groups, err := c.groups(in.Queue, in.Group)
	if err != nil {
		return out, err
	}
	if len(groups) == 0 { // a seek would create it
		if _, err := c.engine.Catalog().Queue(c.ctx, c.caller, in.Queue); err != nil {
			return out, err
		}
		return out, &engine.Error{Code: engine.CodeUnknownGroup}
	}
	counts, err := c.seekCounts(&in, op)
	if err != nil {
		return out, err
	}
	target := map[string]string{"queue": in.Queue, "group": in.Group}
	if in.Partition != "" {
		target["partition"] = in.Partition
	}
	asked, err := c.confirm(in.Confirming, []string{in.Queue, in.Group, in.To, in.Partition}, in.Group, Plan{Action: "move a consumer group", Target: target,
		Counts: counts, Effects: []string{"Skipped messages are not handed out to this group; those before the old cursor are handed out again. Live leases end."}})
	if err != nil || asked != nil {
		return orNone(asked), err
	}
	res, err := c.engine.Do(c.ctx, c.caller, engine.Batch{Ops: []engine.Op{op}})
	if err == nil && res[0].Err != nil {
		err = res[0].Err
	}
	if err != nil {
		return out, err
	}
	counts["partitions_moved"] = res[0].Rows
	return c.doneWith(counts), nil
}

// seekTarget reads where to seek.
func seekTarget(to string, one bool) (s engine.SeekTo, err error) {
	switch {
	case to == "end":
		s.End = true
	case to == "beginning":
		s.ByTime = true // the first message at or after time 0
	case to != "" && strings.Trim(to, "0123456789") == "":
		if !one {
			return s, badArgument("to", "an offset is of one partition: name it")
		}
		if _, err := fmt.Sscan(to, (*uint64)(&s.Offset)); err != nil {
			return s, badArgument("to", "to is no offset")
		}
	default:
		when, err := time.Parse(time.RFC3339Nano, to)
		if err != nil {
			return s, badArgument("to", "to is neither beginning nor end, an RFC 3339 time or an offset")
		}
		s.Time, s.ByTime = format.Wall(when.UnixMicro()), true
	}
	return s, nil
}

// seekCounts tells what a seek would skip and hand out again.
func (c *call) seekCounts(in *seekArgs, op *engine.SetOffset) (map[string]uint64, error) {
	var moved, skipped, again uint64
	page := engine.Page{Limit: 1000}
	for looked := 0; looked < maxScan; {
		rows, next, err := c.engine.Catalog().GroupPartitions(c.ctx, c.caller, in.Group, in.Queue, page)
		if err != nil {
			return nil, err
		}
		looked += len(rows)
		for i := range rows {
			p := &rows[i]
			if in.Partition != "" && p.Partition.Name != in.Partition {
				continue
			}
			to, err := c.seekLands(in, op, p)
			if err != nil {
				return nil, err
			}
			switch {
			case to > p.Next:
				skipped += uint64(to - p.Next)
				moved++
			case to < p.Next:
				again += uint64(p.Next - to)
				moved++
			}
		}
		if next == "" {
			break
		}
		page.After = next
	}
	return map[string]uint64{"partitions": moved, "skipped_messages": skipped, "will_redeliver": again}, nil
}

// seekLands is the offset that a seek would move a partition's cursor to.
func (c *call) seekLands(in *seekArgs, op *engine.SetOffset, p *engine.GroupPartition) (format.Offset, error) {
	switch {
	case op.To.End:
		return p.Partition.End, nil
	case !op.To.ByTime:
		return min(max(op.To.Offset, p.Partition.Start), p.Partition.End), nil
	case op.To.Time == 0:
		return p.Partition.Start, nil
	}
	at, err := c.offsetOf(in.Queue, p.Partition.Name, timeText(op.To.Time), 0)
	if codeOf(err) == engine.CodeUnknownPartition {
		return p.Next, nil // removed meanwhile
	}
	return at, err
}

type groupDeleteArgs struct {
	Queue string `json:"queue"`
	Group string `json:"group"`
	Confirming
}

func groupDelete(c *call, in groupDeleteArgs) (out Planned, err error) {
	if in.Queue == "" || in.Group == "" { // to the engine, all of them
		return out, badArgument("queue", "queue and group are needed, neither empty")
	}
	groups, err := c.groups(in.Queue, in.Group)
	if err != nil {
		return out, err
	}
	if len(groups) == 0 {
		return out, &engine.Error{Code: engine.CodeUnknownGroup}
	}
	g := &groups[0]
	counts := map[string]uint64{"cursors": g.Cursors, "leases": g.Leases, "lag": g.Lag}
	asked, err := c.confirm(in.Confirming, []string{in.Queue, in.Group}, in.Group, Plan{Action: "delete a consumer group",
		Target: map[string]string{"queue": in.Queue, "group": in.Group}, Counts: counts,
		Effects: []string{"Where it was is forgotten: its next pop begins as a new group does."}})
	if err != nil || asked != nil {
		return orNone(asked), err
	}
	n, err := c.engine.Catalog().DeleteGroup(c.ctx, c.caller, in.Group, in.Queue, false, false)
	if err != nil {
		return out, err
	}
	return c.doneWith(map[string]uint64{"cursors": n}), nil
}

type maintenanceArgs struct {
	KV            *bool `json:"kv,omitempty" jsonschema:"puts and increments of keys"`
	TimerSchedule *bool `json:"timer_schedule,omitempty" jsonschema:"new and changed timers"`
	TimerFire     *bool `json:"timer_fire,omitempty" jsonschema:"the firing of timers; what comes due meanwhile fires later"`
	Confirming
}

type maintenanceResult struct {
	Planned
	KV            bool `json:"kv"`
	TimerSchedule bool `json:"timer_schedule"`
	TimerFire     bool `json:"timer_fire"`
}

func maintenanceSet(c *call, in maintenanceArgs) (out maintenanceResult, err error) {
	ops, ok := engine.OperationsOf(c.engine)
	if !ok {
		return out, &engine.Error{Code: engine.CodeNotBuilt}
	}
	show := func(p Planned, s engine.Switches) maintenanceResult {
		return maintenanceResult{Planned: p, KV: s.KV, TimerSchedule: s.TimerSchedule, TimerFire: s.TimerFire}
	}
	asked, err := c.confirm(in.Confirming, []*bool{in.KV, in.TimerSchedule, in.TimerFire}, "maintenance", Plan{Action: "throw switches of the node",
		Target: map[string]string{"node": c.f.opts.Node}, Counts: map[string]uint64{}, Reversible: true,
		Effects: []string{"Calls of a family that is off are refused as paused, for every tenant."}})
	if err != nil || asked != nil {
		return show(orNone(asked), ops.Switches()), err
	}
	s, err := ops.SetSwitches(c.ctx, in.KV, in.TimerSchedule, in.TimerFire)
	if err != nil {
		return out, err
	}
	return show(c.done(), s), nil
}
