package engine

import (
	"slices"
	"strings"
	"unicode/utf8"

	"queen/engine/format"
)

// ackEncoder turns Ack ops into commands, one per (partition, consumer group, lease), and verdicts
// back into one result per op. Groups resolve independently (S-ack-18).
type ackEncoder struct {
	n      *Node
	caller Caller
	sub    *submission
	groups []*ackGroup
	byKey  map[ackKey]*ackGroup
}

type ackKey struct {
	partition format.PartitionID
	group     string
	lease     format.UUID
	unfenced  bool
}

type ackGroup struct {
	ackKey
	command int
	items   []ackItem
	// named holds the offsets this call named so far; an id that stands twice resolves to the next.
	named map[format.Offset]bool
	// bar is the lowest open offset of which the call says something that is no status, once barred is set.
	bar    format.Offset
	barred bool
}

type ackItem struct {
	op     int
	offset format.Offset
	status format.AckStatus
	reason string
	delay  int64
}

// add resolves one Ack to an offset and files it with its group. An error refuses this op alone.
func (e *ackEncoder) add(op int, a *Ack) *Error {
	known := a.Status >= format.AckCompleted && a.Status <= format.AckDLQ
	key, err := e.key(a)
	switch {
	case err != nil && known:
		return err
	case err != nil:
		return errBadStatus()
	}
	g := e.group(key)
	if !known {
		e.bar(g, a)
		return errBadStatus()
	}
	offset, err := e.resolve(g, a)
	if err != nil {
		return err
	}
	g.items = append(g.items, ackItem{op: op, offset: offset, status: a.Status,
		reason: cutReason(a.Reason), delay: a.Delay.Microseconds()})
	return nil
}

func errBadStatus() *Error {
	return &Error{Code: CodeBadStatus, Field: "status", Message: "bad_status: unknown ack status"}
}

func (e *ackEncoder) group(key ackKey) *ackGroup {
	g := e.byKey[key]
	if g == nil {
		g = &ackGroup{ackKey: key}
		if e.byKey == nil {
			e.byKey = map[ackKey]*ackGroup{}
		}
		e.byKey[key] = g
		e.groups = append(e.groups, g)
	}
	return g
}

// resolve finds the offset an ack means and notes that the call named it.
func (e *ackEncoder) resolve(g *ackGroup, a *Ack) (offset format.Offset, err *Error) {
	if offset = a.Offset; !a.HasOffset {
		if offset, err = e.n.resolveAck(e.caller, g, a.TransactionID); err != nil {
			return 0, err
		}
	}
	if g.named == nil {
		g.named = map[format.Offset]bool{}
	}
	g.named[offset] = true
	return offset, nil
}

// bar keeps a message whose status nobody understood open (S-ack-16): what the call says of it and of
// later messages of its group is not carried out either, since each of that would settle it as well. What
// was settled before needs no bar, and where nothing is leased there is nothing to settle.
func (e *ackEncoder) bar(g *ackGroup, a *Ack) {
	part, ok := e.n.partByID(e.caller.Tenant, g.partition)
	if !ok {
		return
	}
	held := e.n.cursorOf(&part, g.group)
	if !held.exists {
		g.barFrom(0, g.unfenced) // a cursor that comes into being now is one that this ack may move
		return
	}
	offset, err := e.resolve(g, a)
	switch {
	case err == nil:
		g.barFrom(offset, offset >= held.next)
	case err.Code != CodeUnresolvable: // it could not be found out which message is meant
		g.barFrom(0, true)
	}
}

func (g *ackGroup) barFrom(offset format.Offset, on bool) {
	if on && (!g.barred || offset < g.bar) {
		g.bar, g.barred = offset, true
	}
}

func (e *ackEncoder) key(a *Ack) (ackKey, *Error) {
	k := ackKey{partition: a.Partition, group: groupName(a.Group)}
	switch {
	case a.Lease == "" && !a.Unfenced:
		return k, &Error{Code: CodeLeaseInvalid, Field: "leaseId", Message: "an ack needs the lease it was popped under"}
	case len(k.group) > format.NameBudget:
		return k, checkNames("", k.group, "consumerGroup")
	case a.Delay < 0:
		return k, errBad("delay", "0 or more", "delay must not be negative")
	case a.Lease == "":
		k.unfenced = true
		return k, nil
	}
	lease, ok := format.ParseUUID(a.Lease)
	if !ok {
		return k, errOfCode(format.CodeLeaseInvalid)
	}
	k.lease = lease
	return k, nil
}

// encode adds the commands of all groups to the submission, and answers what a bar keeps out of them.
func (e *ackEncoder) encode(refuse func(op int, err *Error)) {
	for _, g := range e.groups {
		if g.barred {
			g.items = slices.DeleteFunc(g.items, func(it ackItem) bool {
				above := it.offset >= g.bar
				if above {
					refuse(it.op, &Error{Code: CodeBadStatus, Field: "status",
						Message: "bad_status: not carried out, a message at or below this one has an unknown ack status"})
				}
				return above
			})
		}
		if len(g.items) == 0 {
			g.command = -1
			continue
		}
		g.command = e.sub.buf.Count
		e.sub.buf.AddAck(&format.Ack{Partition: g.partition, Group: viewBytes(g.group), Lease: g.lease,
			Unfenced: g.unfenced, Runs: g.runs()})
	}
}

// runs folds the items into sorted, disjoint runs. Of several verdicts on one offset the strongest
// counts: dlq, then failed, then retry (S-ack-7).
func (g *ackGroup) runs() []format.AckRun {
	order := make([]int, len(g.items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		a, b := &g.items[x], &g.items[y]
		if a.offset != b.offset {
			if a.offset < b.offset {
				return -1
			}
			return 1
		}
		return int(b.status) - int(a.status)
	})
	var runs []format.AckRun
	for i, k := range order {
		it := &g.items[k]
		if i > 0 && g.items[order[i-1]].offset == it.offset {
			continue
		}
		if n := len(runs); n > 0 && joins(&runs[n-1], it) {
			runs[n-1].Count++
			continue
		}
		runs = append(runs, format.AckRun{First: it.offset, Count: 1, Status: it.status,
			Reason: viewBytes(it.reason), Delay: it.delay})
	}
	return runs
}

func joins(r *format.AckRun, it *ackItem) bool {
	return r.Status == it.status && r.Delay == it.delay && r.First+format.Offset(r.Count) == it.offset &&
		string(r.Reason) == it.reason
}

// results answers every op that was encoded.
func (e *ackEncoder) results(out []Result) {
	items := e.sub.items()
	for _, g := range e.groups {
		if g.command < 0 {
			continue
		}
		it := &items[g.command]
		if refusal := errOfCode(it.Code); refusal != nil && !judgedOne(it.Code) {
			for i := range g.items {
				out[g.items[i].op].Err = refusal
			}
			continue
		}
		res := &e.sub.flight.results.Acks[it.At]
		for i := range g.items {
			r := &out[g.items[i].op]
			if r.Ack, r.Err = ackVerdict(&g.items[i], res); r.Err == nil && !r.Ack.Noop {
				e.count(g.items[i].status)
			}
		}
		if res.Filed {
			e.n.counters.deadLettered.Add(uint64(res.FiledEnd - res.FiledFirst))
		}
	}
}

// judgedOne says that a refusal is about messages, not about the whole group: nothing was carried out,
// since every message lies below the cursor or outside the lease, and each is told its own reason.
func judgedOne(c format.Code) bool { return c == format.CodeCommitted || c == format.CodeUnresolvable }

func (e *ackEncoder) count(s format.AckStatus) {
	if s == format.AckCompleted {
		e.n.counters.acked.Add(1)
	} else {
		e.n.counters.nacked.Add(1)
	}
}

// ackVerdict is what the group's verdict means for one message (S-ack-9, S-ack-10, S-ack-11).
func ackVerdict(it *ackItem, res *format.AckResult) (AckItem, *Error) {
	switch {
	case it.offset < res.Before && it.status == format.AckCompleted:
		return AckItem{Noop: true}, nil
	case it.offset < res.Before:
		return AckItem{}, errOfCode(format.CodeCommitted)
	case it.offset >= res.LeaseEnd:
		return AckItem{}, errOfCode(format.CodeUnresolvable)
	}
	filed := res.Filed && it.offset >= res.FiledFirst && it.offset < res.FiledEnd
	return AckItem{Released: res.Released, Filed: filed}, nil
}

func cutReason(s string) string {
	if len(s) <= MaxReason {
		return s
	}
	n := MaxReason
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n])
}
