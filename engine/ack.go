package engine

import (
	"slices"
	"strings"
	"unicode/utf8"

	"queen/engine/format"
	"queen/engine/stats"
)

// ackEncoder turns Ack ops into commands, one per (partition, consumer group, lease), and verdicts
// back into one result per op. Groups resolve independently (S-ack-18).
//
// A worker acks each message by an item of its own, in the order in which they came: so an item is first held
// against the group and the message after those of the item before, and nothing is allocated for it.
type ackEncoder struct {
	n      *Node
	caller Caller
	sub    *submission
	groups []ackGroup
	byPart map[partScope]int // of groups, once there are more than a few
	scopes map[ackScope]int  // numbers of scopes, once there are two
	scope  int               // number of the last item's, which is held
	held   ackScope
	items  []ackItem
	order  []int32 // numbers of items, group by group
	runs   []format.AckRun
	leases leaseReader
	// lease is the one parsed last, from text.
	text  string
	lease format.UUID
	// whole: the acks are parts of a transaction, all of which take place or none. again: they took place
	// before, so that it does not matter what can not be found any more.
	whole, again bool
}

// emptied is a new encoder with e's memory.
func (e *ackEncoder) emptied() ackEncoder {
	clear(e.groups)
	clear(e.items) // they hold the caller's reasons
	clear(e.runs[:cap(e.runs)])
	if len(e.byPart) > keptGroups {
		e.byPart = nil
	}
	clear(e.byPart)
	return ackEncoder{groups: e.groups[:0], byPart: e.byPart, items: e.items[:0], order: e.order[:0], runs: e.runs[:0]}
}

type ackKey struct {
	partition format.PartitionID
	ackScope
}

// ackScope is what the acks of one pop have in common.
type ackScope struct {
	group    string
	lease    format.UUID
	unfenced bool
}

// partScope stands for an ackKey, with the number of its scope instead of the scope: it is compared and hashed for every
// message of a call that acks many partitions.
type partScope struct {
	partition format.PartitionID
	scope     int
}

type ackGroup struct {
	ackKey
	scope   int
	command int
	// Of its items, in ackEncoder.order.
	first, count int
	// named holds the offsets this call named so far; an id that stands twice resolves to the next. It is nil
	// until some id does.
	named map[format.Offset]bool
	// bar is the lowest open offset of which the call says something that is no status, once barred is set.
	bar    format.Offset
	barred bool
}

type ackItem struct {
	op, group int
	offset    format.Offset
	status    format.AckStatus
	// silent items say nothing of their message but that the call named it.
	silent bool
	reason string
	delay  int64
}

// few is how many groups are looked through before there is a map of them.
const few = 4

// keptGroups is how many groups a call may have had whose table is kept: emptying it takes as long as it is large.
const keptGroups = 512

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
	g := e.group(&key)
	if !known {
		e.bar(g, a)
		return errBadStatus()
	}
	offset, err := e.resolve(g, a)
	switch {
	case err != nil && !e.again:
		return err
	case err != nil:
		offset = ^format.Offset(0)
	}
	e.items = append(e.items, ackItem{op: op, group: g, offset: offset, status: a.Status,
		reason: cutReason(a.Reason), delay: a.Delay.Microseconds()})
	e.groups[g].count++
	return nil
}

func errBadStatus() *Error {
	return &Error{Code: CodeBadStatus, Field: "status", Message: "bad_status: unknown ack status"}
}

// group finds or makes the group of a key.
func (e *ackEncoder) group(key *ackKey) int {
	k := partScope{key.partition, e.scopeOf(&key.ackScope)}
	last := len(e.groups) - 1
	for i := last; i >= 0 && i > last-few; i-- {
		if g := &e.groups[i]; g.partition == k.partition && g.scope == k.scope {
			return i
		}
	}
	if i, ok := e.byPart[k]; ok {
		return i
	}
	e.groups = append(e.groups, ackGroup{ackKey: *key, scope: k.scope})
	if n := len(e.groups); n == few+1 {
		if e.byPart == nil {
			e.byPart = make(map[partScope]int, 8*few)
		}
		for i := range e.groups {
			e.byPart[partScope{e.groups[i].partition, e.groups[i].scope}] = i
		}
	} else if n > few {
		e.byPart[k] = n - 1
	}
	return last + 1
}

// scopeOf numbers scopes in the order in which they come. A call has one, as a rule.
func (e *ackEncoder) scopeOf(s *ackScope) int {
	switch {
	case len(e.groups) == 0:
		e.held = *s
		return 0
	case e.held == *s:
		return e.scope
	case e.scopes == nil:
		e.scopes = map[ackScope]int{e.held: e.scope}
	}
	n, ok := e.scopes[*s]
	if !ok {
		n = len(e.scopes)
		e.scopes[*s] = n
	}
	e.held, e.scope = *s, n
	return n
}

// resolve finds the offset an ack means.
func (e *ackEncoder) resolve(group int, a *Ack) (format.Offset, *Error) {
	g := &e.groups[group]
	offset := a.Offset
	if !a.HasOffset {
		o, err := e.n.resolveAck(e.caller, &g.ackKey, a.TransactionID, &e.leases, func(o format.Offset) bool {
			return e.isNamed(group, o)
		})
		if err != nil {
			return 0, err
		}
		offset = o
	}
	if g.named != nil {
		g.named[offset] = true
	}
	return offset, nil
}

// isNamed says that an earlier item of the group named an offset. Only ids that stand twice make it ask.
func (e *ackEncoder) isNamed(group int, o format.Offset) bool {
	g := &e.groups[group]
	if g.named == nil {
		g.named = map[format.Offset]bool{}
		for i := range e.items {
			if it := &e.items[i]; it.group == group {
				g.named[it.offset] = true
			}
		}
	}
	return g.named[o]
}

// bar keeps a message whose status nobody understood open (S-ack-16): what the call says of it and of
// later messages of its group is not carried out either, since each of that would settle it as well. What
// was settled before needs no bar, and where nothing is leased there is nothing to settle.
func (e *ackEncoder) bar(group int, a *Ack) {
	g := &e.groups[group]
	part, ok := e.n.partByID(e.caller.Tenant, g.partition)
	if !ok {
		return
	}
	held := e.n.cursorOf(&part, g.group)
	if !held.exists {
		g.barFrom(0, g.unfenced) // a cursor that comes into being now is one that this ack may move
		return
	}
	offset, err := e.resolve(group, a)
	switch {
	case err == nil:
		e.items = append(e.items, ackItem{group: group, offset: offset, silent: true})
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
	k := ackKey{partition: a.Partition, ackScope: ackScope{group: groupName(a.Group)}}
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
	if e.text != a.Lease || e.lease.IsZero() {
		lease, ok := format.ParseUUID(a.Lease)
		if !ok {
			return k, errOfCode(format.CodeLeaseInvalid)
		}
		e.text, e.lease = a.Lease, lease
	}
	k.lease = e.lease
	return k, nil
}

// encode adds the commands of all groups to the submission, and answers what a bar keeps out of them.
func (e *ackEncoder) encode(refuse func(op int, err *Error)) {
	e.sort()
	for i := range e.groups {
		g := &e.groups[i]
		g.command = -1
		if g.barred {
			e.keepOut(g, refuse)
		}
		if g.count > 0 {
			g.command = e.sub.buf.Count
			e.sub.buf.AddAck(&format.Ack{Partition: g.partition, Group: viewBytes(g.group), Lease: g.lease,
				Unfenced: g.unfenced, Runs: e.runsOf(g)})
		}
	}
}

// sort lines the items up by group, each group's by offset, of one offset the strongest verdict first.
func (e *ackEncoder) sort() {
	at := 0
	for i := range e.groups {
		e.groups[i].first = at
		at += e.groups[i].count
		e.groups[i].count = 0
	}
	e.order = slices.Grow(e.order[:0], at)[:at]
	for i := range e.items {
		if it := &e.items[i]; !it.silent {
			g := &e.groups[it.group]
			e.order[g.first+g.count] = int32(i)
			g.count++
		}
	}
	for i := range e.groups {
		order := e.itemsOf(&e.groups[i])
		if !slices.IsSortedFunc(order, e.compare) {
			slices.SortStableFunc(order, e.compare)
		}
	}
}

func (e *ackEncoder) itemsOf(g *ackGroup) []int32 { return e.order[g.first : g.first+g.count] }

func (e *ackEncoder) compare(x, y int32) int {
	a, b := &e.items[x], &e.items[y]
	switch {
	case a.offset < b.offset:
		return -1
	case a.offset > b.offset:
		return 1
	}
	return int(b.status) - int(a.status)
}

// keepOut refuses the items at and above the group's bar.
func (e *ackEncoder) keepOut(g *ackGroup, refuse func(op int, err *Error)) {
	for ; g.count > 0; g.count-- {
		it := &e.items[e.order[g.first+g.count-1]]
		if it.offset < g.bar {
			return
		}
		refuse(it.op, &Error{Code: CodeBadStatus, Field: "status",
			Message: "bad_status: not carried out, a message at or below this one has an unknown ack status"})
	}
}

// runsOf folds the group's items into sorted, disjoint runs, valid until the next call. Of several verdicts on one
// offset the strongest counts: dlq, then failed, then retry (S-ack-7).
func (e *ackEncoder) runsOf(g *ackGroup) []format.AckRun {
	runs := e.runs[:0]
	order := e.itemsOf(g)
	for i, k := range order {
		it := &e.items[k]
		if i > 0 && e.items[order[i-1]].offset == it.offset {
			continue
		}
		if n := len(runs); n > 0 && joins(&runs[n-1], it) {
			runs[n-1].Count++
			continue
		}
		runs = append(runs, format.AckRun{First: it.offset, Count: 1, Status: it.status,
			Reason: viewBytes(it.reason), Delay: it.delay})
	}
	e.runs = runs
	return runs
}

func joins(r *format.AckRun, it *ackItem) bool {
	return r.Status == it.status && r.Delay == it.delay && r.First+format.Offset(r.Count) == it.offset &&
		string(r.Reason) == it.reason
}

// results answers every op that was encoded.
func (e *ackEncoder) results(out []Result) {
	verdicts := e.sub.items()
	var t tally
	for i := range e.groups {
		g := &e.groups[i]
		if g.command < 0 {
			continue
		}
		row := stats.Counts{}
		it := &verdicts[g.command]
		if refusal := errOfCode(it.Code); refusal != nil && !judgedOne(it.Code) {
			for _, k := range e.itemsOf(g) {
				out[e.items[k].op].Err = refusal
			}
			continue
		}
		res := &e.sub.flight.results.Acks[it.At]
		for _, k := range e.itemsOf(g) {
			item := &e.items[k]
			r := &out[item.op]
			if r.Ack, r.Err = ackVerdict(item, res, e.whole); r.Err == nil && !r.Ack.Noop && !e.again {
				e.count(item.status, &row)
			}
		}
		queue := res.Queue
		if e.again {
			queue = e.queueOf(g.partition)
		}
		if queue != t.queue {
			row[stats.AckRequests] = 1
		}
		t.add(e.n, e.caller.Tenant, queue, &row)
		if res.Filed {
			e.n.counters.deadLettered.Add(uint64(res.FiledEnd - res.FiledFirst))
		}
	}
	t.done(e.n, e.caller.Tenant, stats.AckRequests)
}

// queueOf looks up the queue of a partition of which the verdict does not tell it, 0 where it is gone.
func (e *ackEncoder) queueOf(id format.PartitionID) format.QueueID {
	e.n.state.RLock()
	defer e.n.state.RUnlock()
	queue, _ := e.n.state.m.QueueOf(id)
	return queue
}

// judgedOne says that a refusal is about messages, not about the whole group: nothing was carried out,
// since every message lies below the cursor or outside the lease, and each is told its own reason.
func judgedOne(c format.Code) bool { return c == format.CodeCommitted || c == format.CodeUnresolvable }

func (e *ackEncoder) count(s format.AckStatus, row *stats.Counts) {
	if s == format.AckCompleted {
		row[stats.AckSuccess]++
		e.n.counters.acked.Add(1)
	} else {
		row[stats.AckFailed]++
		e.n.counters.nacked.Add(1)
	}
}

// ackVerdict is what the group's verdict means for one message (S-ack-9, S-ack-10, S-ack-11). In a transaction that
// took place an unfenced one may lie beyond what is leased (S-txn-8).
func ackVerdict(it *ackItem, res *format.AckResult, whole bool) (AckItem, *Error) {
	switch {
	case it.offset < res.Before && it.status == format.AckCompleted:
		return AckItem{Noop: true}, nil
	case it.offset < res.Before:
		return AckItem{}, errOfCode(format.CodeCommitted)
	case it.offset >= res.LeaseEnd && !whole:
		return AckItem{}, errOfCode(format.CodeUnresolvable)
	}
	filed := res.Filed && it.offset >= res.FiledFirst && it.offset < res.FiledEnd
	out := AckItem{Released: res.Released, Filed: filed}
	if it.status == format.AckCompleted && it.offset+1 == res.After {
		out.Conflated = res.Conflated
	}
	return out, nil
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
