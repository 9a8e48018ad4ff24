package machine

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"queen/engine/format"
)

// TestScripts runs testdata/*: small plays of entries and the verdicts they get. One "entry" block is
// one entry of the log, a command per line; time stands still unless a block says otherwise.
//
//	entry [+5s] [t+5s] [w+5s] [epoch=2] [fuse=7]
//	push q/p id1 id2 _ [clear=N] [orig=AT:OFFSET:INDEX.ORDINAL:AGE]    (_ is a message without an id)
//	pop q[,q2] [as=NAME] [g=group] [batch=10] [parts=1] [lease=10s] [pin=p] [start=all|new|from:-5s] [commit] [ev=#1:GEN:OFFSET]
//	ack #1 [g=group] NAME|unfenced 0-4:ok 5:failed:reason 6:retry::2s 7:dlq
//	extend NAME 30s / release NAME [#1 ...] / skip NAME #1 7 / trimlease NAME #1 last=2 end=5
//	seek q/p g to|end / register q g new|all|from:-5s [reset] [missing]
//	configure q key=value ... [replace] [null:key]
//	reveal #1 upto [next=+5s] gen=N / retain q=N cutoff=-5s gen=N / trim q=N [completed|bounded] gen=N #1:5 ...
//	delete queue q | group q g [keep] [all] | part #1 next | dead #1 offset
//	redrive DEADNUMBER q/p id / purge q [g] / sweep N / mark [digest=bad] / tick / term N / opaque KIND
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		r := newRig(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			r.t = t
			return r.script(d)
		})
	})
}

func (r *rig) script(d *datadriven.TestData) string {
	switch d.Cmd {
	case "entry":
		return r.scriptEntry(d)
	case "group":
		return r.scriptGroup(d)
	case "part":
		return r.scriptPart(d)
	case "dead":
		return r.scriptDead(d)
	case "keyed":
		return r.scriptKeyed(d)
	case "settled":
		s := fmt.Sprintln(r.keyed.settled)
		r.keyed.settled = nil
		return s
	case "touched":
		var b strings.Builder
		for _, t := range r.m.Touched() {
			fmt.Fprintf(&b, "queue=%d part=%s group=%d reason=%b\n", t.Queue, pidName(t.Partition), t.Group, t.Reason)
		}
		return b.String()
	case "due":
		t, w := r.m.NextDue()
		var b strings.Builder
		if t != 0 {
			fmt.Fprintf(&b, "t+%v ", time.Duration(t-r.T)*time.Microsecond)
		}
		if w != 0 {
			fmt.Fprintf(&b, "w+%v ", time.Duration(w-r.W)*time.Microsecond)
		}
		for _, v := range r.m.DueReveals(nil, 10) {
			fmt.Fprintf(&b, "reveal %s from %d of %d delay=%v gen=%d ", pidName(v.Partition), v.Visible, v.End,
				time.Duration(v.Delay)*time.Microsecond, v.Generation)
		}
		p := r.m.Pending()
		fmt.Fprintf(&b, "tasks=%d\n", p.Tasks)
		return b.String()
	case "counters":
		c := r.m.Counters()
		return fmt.Sprintf("queues=%d partitions=%d groups=%d cursors=%d leases=%d records=%d dead=%d ids=%d names=%d\n",
			c.Queues, c.Partitions, c.Groups, c.Cursors, c.LiveLeases, c.LeaseRecords, c.DeadLetters, c.RecentIDs, r.m.names.Len())
	case "queue":
		return r.scriptQueue(d)
	case "journal": // tests of the ring work with a small one
		r.m.journalMin = uint64(num(d.CmdArgs[0].Key))
		return ""
	}
	r.t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	return ""
}

func (r *rig) scriptEntry(d *datadriven.TestData) string {
	r.W++ // no two entries of a script have one W
	for _, a := range d.CmdArgs {
		switch k := a.Key; {
		case strings.HasPrefix(k, "+"):
			r.advance(dur(k[1:]))
		case strings.HasPrefix(k, "t+"):
			r.T += format.Mono(dur(k[2:]).Microseconds())
		case strings.HasPrefix(k, "w+"):
			r.W += format.Wall(dur(k[2:]).Microseconds())
		case strings.HasPrefix(k, "t-"):
			r.T -= format.Mono(dur(k[2:]).Microseconds())
		case strings.HasPrefix(k, "w-"):
			r.W -= format.Wall(dur(k[2:]).Microseconds())
		case k == "epoch":
			r.epoch = format.Term(num(a.Vals[0]))
		case k == "fuse":
			r.fuse = uint64(num(a.Vals[0])) - 1
		default:
			r.t.Fatalf("%s: unknown argument %q", d.Pos, k)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		r.addLine(d, strings.Fields(line))
	}
	out := r.apply()
	if r.m.t > r.T || r.m.w > r.W {
		r.T, r.W = r.m.t, r.m.w // a refused entry with old stamps
	}
	return r.render(out)
}

func dur(s string) time.Duration {
	v, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return v
}

func num(s string) int64 {
	if s == "" {
		return 0
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return v
}

// opts splits "key=value" words from the rest.
func opts(words []string) (plain []string, by map[string]string) {
	by = map[string]string{}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			by[k] = v
		} else {
			plain = append(plain, w)
		}
	}
	return plain, by
}

func has(words []string, w string) bool {
	for _, v := range words {
		if v == w {
			return true
		}
	}
	return false
}

func (r *rig) wall(s string) format.Wall {
	return r.W + format.Wall(dur(s).Microseconds())
}

func (r *rig) start(s string) (format.StartKind, format.Wall) {
	switch {
	case s == "new":
		return format.StartNew, 0
	case strings.HasPrefix(s, "from:"):
		return format.StartFrom, r.wall(s[5:])
	default:
		return format.StartAll, 0
	}
}

func groupName(by map[string]string) []byte {
	if g, ok := by["g"]; ok {
		return []byte(g)
	}
	return []byte(format.QueueMode)
}

func (r *rig) addLine(d *datadriven.TestData, words []string) {
	plain, by := opts(words[1:])
	switch words[0] {
	case "push":
		queue, part, _ := strings.Cut(plain[0], "/")
		r.addPush(queue, part, underscores(plain[1:]), func(a *format.Append) { r.evidence(a, by) })
	case "pop":
		r.addPop(plain, by)
	case "ack":
		r.addAck(plain, by)
	case "extend":
		r.buf.AddExtend(&format.Extend{Lease: r.leaseID(plain[0]), For: dur(plain[1]).Microseconds()})
	case "release":
		c := format.Release{Lease: r.leaseID(plain[0])}
		for _, p := range plain[1:] {
			c.Partitions = append(c.Partitions, r.part(p))
		}
		r.buf.AddRelease(&c)
	case "skip":
		r.buf.AddSkip(&format.Skip{Lease: r.leaseID(plain[0]), Partition: r.part(plain[1]), Upto: format.Offset(num(plain[2]))})
	case "trimlease":
		r.buf.AddTrimLease(&format.TrimLease{
			Lease: r.leaseID(plain[0]), Partition: r.part(plain[1]), LastDelivered: format.Offset(num(by["last"])),
			NewEnd: format.Offset(num(by["end"])),
		})
	case "tick":
		r.buf.AddTick()
	case "term":
		r.buf.AddTerm(&format.TermCmd{Epoch: format.Term(num(plain[0]))})
	case "genesis":
		r.buf.AddGenesis(&format.Genesis{Level: 1})
	case "opaque":
		r.buf.AddOpaque(&format.Opaque{Kind: format.Kind(num(plain[0])), Body: []byte("body")})
	default:
		if !r.addKeyed(plain, by, words[0]) {
			r.addAdmin(d, words[0], plain, by)
		}
	}
}

func underscores(ids []string) []string {
	for i := range ids {
		if ids[i] == "_" {
			ids[i] = ""
		}
	}
	return ids
}

func (r *rig) evidence(a *format.Append, by map[string]string) {
	if v, ok := by["clear"]; ok {
		a.ClearTo = uint64(num(v))
	}
	if v, ok := by["orig"]; ok {
		f := strings.Split(v, ":")
		place := strings.Split(f[2], ".")
		a.Originals = append(a.Originals, format.Original{
			At: uint32(num(f[0])), Offset: format.Offset(num(f[1])),
			Place: format.Place{Index: format.Index(num(place[0])), Ordinal: format.Ordinal(num(place[1]))}, W: r.wall(f[3]),
		})
	}
}

func (r *rig) addPop(plain []string, by map[string]string) {
	c := format.Pop{
		Tenant: format.DefaultTenant, Group: groupName(by), Batch: 100, Partitions: 1, Commit: has(plain, "commit"),
		Conflate: has(plain, "conflate"), Worker: []byte(by["worker"]),
	}
	for _, q := range strings.Split(plain[0], ",") {
		c.Queues = append(c.Queues, []byte(q))
	}
	c.Start, c.From = r.start(by["start"])
	if v, ok := by["batch"]; ok {
		c.Batch = uint32(num(v))
	}
	if v, ok := by["parts"]; ok {
		c.Partitions = uint32(num(v))
	}
	if v, ok := by["lease"]; ok {
		c.Lease = dur(v).Microseconds()
	}
	if v, ok := by["pin"]; ok {
		c.Partition, c.Pinned = []byte(v), true
	}
	if v, ok := by["ev"]; ok {
		f := strings.Split(v, ":")
		c.Evidence = []format.CursorEvidence{{
			Partition: r.part(f[0]), Generation: uint32(num(f[1])), Offset: format.Offset(num(f[2])),
		}}
	}
	r.namePop(by["as"])
	r.buf.AddPop(&c)
}

var statusNames = map[string]format.AckStatus{
	"ok": format.AckCompleted, "retry": format.AckRetry, "failed": format.AckFailed, "dlq": format.AckDLQ,
}

func (r *rig) addAck(plain []string, by map[string]string) {
	c := format.Ack{Partition: r.part(plain[0]), Group: groupName(by)}
	if plain[1] == "unfenced" {
		c.Unfenced = true
	} else {
		c.Lease = r.leaseID(plain[1])
	}
	for _, w := range plain[2:] {
		f := strings.Split(w, ":")
		lo, hi, ranged := strings.Cut(f[0], "-")
		run := format.AckRun{First: format.Offset(num(lo)), Count: 1, Status: statusNames[f[1]]}
		if ranged {
			run.Count = uint32(num(hi)) - uint32(run.First) + 1
		}
		if len(f) > 2 {
			run.Reason = []byte(f[2])
		}
		if len(f) > 3 {
			run.Delay = dur(f[3]).Microseconds()
		}
		c.Runs = append(c.Runs, run)
	}
	r.buf.AddAck(&c)
}

func (r *rig) addAdmin(d *datadriven.TestData, cmd string, plain []string, by map[string]string) {
	switch cmd {
	case "seek":
		queue, part, _ := strings.Cut(plain[0], "/")
		c := format.SetOffset{
			Tenant: format.DefaultTenant, Queue: []byte(queue), Partition: []byte(part), Group: []byte(plain[1]),
			ToEnd: plain[2] == "end",
		}
		if !c.ToEnd {
			c.To = format.Offset(num(plain[2]))
		}
		r.buf.AddSetOffset(&c)
	case "register":
		c := format.Register{
			Tenant: format.DefaultTenant, Queue: []byte(plain[0]), Group: []byte(plain[1]), Reset: has(plain, "reset"),
			OnlyMissing: has(plain, "missing"),
		}
		c.Start, c.From = r.start(plain[2])
		r.buf.AddRegister(&c)
	case "configure":
		r.addConfigure(plain, by)
	case "reveal":
		c := format.Reveal{Partition: r.part(plain[0]), Visible: format.Offset(num(plain[1])), Generation: uint32(num(by["gen"]))}
		if v, ok := by["next"]; ok {
			c.Next = r.wall(v)
		}
		r.buf.AddReveal(&c)
	case "retain":
		r.buf.AddRetain(&format.Retain{
			Queue: format.QueueID(num(by["q"])), Cutoff: r.wall(by["cutoff"]), Generation: uint32(num(by["gen"])),
		})
	case "trim":
		c := format.Trim{
			Queue: format.QueueID(num(by["q"])), Completed: has(plain, "completed"), Bounded: has(plain, "bounded"), Generation: uint32(num(by["gen"])),
		}
		for _, w := range plain {
			if p, upto, ok := strings.Cut(w, ":"); ok {
				c.Items = append(c.Items, format.TrimItem{Partition: r.part(p), Upto: format.Offset(num(upto))})
			}
		}
		r.buf.AddTrim(&c)
	case "delete":
		r.addDelete(plain)
	case "redrive":
		r.addRedrive(plain)
	case "purge":
		c := format.Purge{Tenant: format.DefaultTenant, Queue: []byte(plain[0]), AnyGroup: len(plain) == 1}
		if len(plain) > 1 {
			c.Group = []byte(plain[1])
		}
		r.buf.AddPurge(&c)
	case "sweep":
		r.buf.AddSweep(&format.Sweep{Limit: uint32(num(plain[0]))})
	case "mark":
		c := format.Mark{Number: r.m.marks + 1}
		if r.m.marks > 0 {
			c.Digest = r.m.Digest()
		}
		if v, ok := by["number"]; ok {
			c.Number = uint64(num(v))
		}
		r.buf.AddMark(&c)
	default:
		r.t.Fatalf("%s: unknown command %q", d.Pos, cmd)
	}
}

// addRedrive names a dead letter by its number in the listing.
func (r *rig) addRedrive(plain []string) {
	rows := r.allDead()
	c := format.Redrive{DeadLetter: format.UUID{1}}
	if n := int(num(plain[0])); n < len(rows) {
		c.DeadLetter = rows[n].ID
	}
	queue, part, _ := strings.Cut(plain[1], "/")
	h := format.HashID(hashKey, []byte(plain[2]))
	c.Append = format.Append{
		Tenant: format.DefaultTenant, Queue: []byte(queue), Partition: []byte(part), Frame: format.FrameNative,
		Count: 1, IDs: format.IDsAll, Hashes: h[:],
	}
	r.buf.AddRedrive(&c, testFrame([]format.FrameMessage{{Payload: []byte("x")}}))
}

func (r *rig) addDelete(plain []string) {
	c := format.Delete{Tenant: format.DefaultTenant, AllQueues: has(plain, "all"), KeepRegistration: has(plain, "keep")}
	switch plain[0] {
	case "queue":
		c.What, c.Queue = format.DeleteQueue, []byte(plain[1])
	case "group":
		c.What, c.Queue, c.Name = format.DeleteGroup, []byte(plain[1]), []byte(plain[2])
	case "part":
		c.What, c.Partition, c.Offset = format.DeletePartition, r.part(plain[1]), format.Offset(num(plain[2]))
	case "dead":
		c.What, c.Partition, c.Offset = format.DeleteDeadLetter, r.part(plain[1]), format.Offset(num(plain[2]))
	}
	r.buf.AddDelete(&c)
}

func (r *rig) addConfigure(plain []string, by map[string]string) {
	c := format.Configure{Tenant: format.DefaultTenant, Queue: []byte(plain[0]), Replace: has(plain, "replace")}
	o := &c.Patch
	numbers := map[string]struct {
		bit format.OptionMask
		p   *int64
	}{
		"leaseTime": {format.OptLeaseTime, &o.LeaseTime}, "retryLimit": {format.OptRetryLimit, &o.RetryLimit},
		"retryDelay": {format.OptRetryDelay, &o.RetryDelayMs}, "delay": {format.OptDelayedProcessing, &o.DelayedProcessing},
		"window": {format.OptWindowBuffer, &o.WindowBuffer}, "dedup": {format.OptDedupWindowSeconds, &o.DedupWindowSeconds},
		"maxDeliveries": {format.OptMaxDeliveries, &o.MaxDeliveries}, "maxWait": {format.OptMaxWaitTimeSeconds, &o.MaxWaitTimeSeconds},
		"retention": {format.OptRetentionSeconds, &o.RetentionSeconds}, "ttl": {format.OptTTL, &o.TTL},
		"maxSize": {format.OptMaxSize, &o.MaxSize}, "retentionMs": {format.OptRetentionMs, &o.RetentionMs},
	}
	flags := map[string]struct {
		bit format.OptionMask
		p   *bool
	}{
		"dlq": {format.OptDeadLetterQueue, &o.DeadLetterQueue}, "dlqAfter": {format.OptDLQAfterMaxRetries, &o.DLQAfterMaxRetries},
		"dlqBatch": {format.OptDLQScope, &o.DLQScopeBatch}, "retentionOn": {format.OptRetentionEnabled, &o.RetentionEnabled},
	}
	for k, n := range numbers {
		if v, ok := by[k]; ok {
			*n.p, o.Set = num(v), o.Set|n.bit
		}
		if has(plain, "null:"+k) {
			c.Reset |= n.bit
		}
	}
	for k, f := range flags {
		if v, ok := by[k]; ok {
			*f.p, o.Set = v == "true", o.Set|f.bit
		}
	}
	if v, ok := by["namespace"]; ok {
		o.Namespace, o.Set = v, o.Set|format.OptNamespace
	}
	r.buf.AddConfigure(&c)
}

func (r *rig) scriptGroup(d *datadriven.TestData) string {
	q, _ := r.m.QueueByName(format.DefaultTenant, d.CmdArgs[0].Key)
	name := format.QueueMode
	if len(d.CmdArgs) > 1 {
		name = d.CmdArgs[1].Key
	}
	g, ok := r.m.GroupByName(q.ID, name)
	if !ok {
		return "unknown\n"
	}
	return fmt.Sprintf("id=%d start=%d gen=%d cursors=%d leases=%d queued=%d unread=%d sweeping=%v consumed=%v ready=%d\n",
		g.ID, g.Start, g.Generation, g.Cursors, g.Leases, g.Queued, g.Unread, g.Sweeping, g.Consumed, r.m.Ready(q.ID, g.ID))
}

func (r *rig) scriptPart(d *datadriven.TestData) string {
	p, ok := r.m.PartitionByID(format.DefaultTenant, r.part(d.CmdArgs[0].Key))
	if !ok {
		return "unknown\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s next=%d trim=%d visible=%d row=%d empty=%v dead=%v\n", pidName(p.ID), p.Name, p.Next, p.Trim,
		p.Visible, p.NewestRow, p.Empty, p.DeadLetters)
	for _, g := range r.m.Groups(p.Queue) {
		c, _ := r.m.CursorOf(p.ID, g.ID)
		fmt.Fprintf(&b, "%s: next=%d known=%v record=%v queued=%v retries=%d ready=%v", g.Name, c.Next, c.Known, c.Exists,
			c.Queued, c.Retries, r.m.ReadyPinned(p.ID, g.ID))
		if !c.Lease.ID.IsZero() {
			l := &c.Lease
			fmt.Fprintf(&b, " lease=%s[%d,%d) worker=%q x%d", r.leaseName(l.ID), l.First, l.End, l.Worker, l.Attempt)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (r *rig) allDead() (rows []DeadLetter) {
	for _, q := range r.m.Queues(format.Tenant{}, true, 0, 100) {
		r.m.DeadLetters(q.ID, func(d DeadLetter) bool {
			rows = append(rows, d)
			return true
		})
	}
	return rows
}

func (r *rig) scriptDead(*datadriven.TestData) string {
	var b strings.Builder
	for _, d := range r.allDead() {
		row, _ := format.ParseDeadRow([]byte(r.keyed.rows[string(FamilyDeadLetter)+string(d.ID[:])]))
		if at := d.Offset; d.OfTimer() {
			timer, err := format.ParseTimerRow(row.Timer)
			fmt.Fprintf(&b, "%s timer=%s@%d tx=%s err=%v", pidName(d.Partition), row.Key, at-format.TimerOffset, timer.TransactionID, err)
		} else {
			fmt.Fprintf(&b, "%s@%d", pidName(d.Partition), at)
		}
		fmt.Fprintf(&b, " group=%s retries=%d reason=%q\n", d.Group, d.Retries, row.Reason)
	}
	return b.String()
}

func (r *rig) scriptQueue(d *datadriven.TestData) string {
	q, ok := r.m.QueueByName(format.DefaultTenant, d.CmdArgs[0].Key)
	if !ok {
		return "unknown\n"
	}
	return fmt.Sprintf("id=%d partitions=%d groups=%d dead=%d implicit=%v optionGen=%d groupGen=%d journal=%d expiry=%v\n",
		q.ID, q.Partitions, q.Groups, q.DeadLetters, q.Implicit, q.OptionGen, q.GroupGen, q.JournalLen,
		time.Duration(q.Expiry)*time.Microsecond)
}
