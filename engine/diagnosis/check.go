package diagnosis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"queen/engine"
	"queen/engine/format"
)

// Finding is something that is wrong, or that explains what looks wrong. Names of the broker's objects are in their
// fields only: texts are ours.
type Finding struct {
	// Cause is a word for programs: a Reason, the code of an Alarm, or one of node_silent, port_silent, node_behind, no_group,
	// dead_letters, switched_off, redelivered, overloaded and slow_disk.
	Cause string
	// Severity is critical, warning or info.
	Severity string
	Title    string
	// Queue, Group, Partition and Worker say what it is about; "" where it is about none. Partition is the worst one.
	Queue, Group, Partition, Worker string
	// Partitions is how many have this cause, Lag how many messages wait in them.
	Partitions int
	Lag        uint64
	// Evidence is what it rests on, in numbers; NextStep is what to do.
	Evidence []string
	NextStep string
}

// CheckRun is a check and what came of it: ok or found.
type CheckRun struct {
	Name    string
	Outcome string
}

// Report is one diagnosis.
type Report struct {
	// Findings are the worst first.
	Findings []Finding
	Checks   []CheckRun
	Status   engine.Status
	Stats    engine.Stats
}

// AuditQueue holds records of what was done through a frontend; that nobody consumes it is no finding.
const AuditQueue = "queen.audit"

// check is one row of the checklist.
type check struct {
	name     string
	symptoms []string // the ones it helps with
	run      func(*doctor) ([]Finding, error)
}

// doctor is one diagnosis.
type doctor struct {
	ctx    context.Context
	engine engine.Engine
	caller engine.Caller
	sight  *Sight
	stats  engine.Stats
	status engine.Status
}

// Symptoms are what a Request may name.
var Symptoms = []string{"backlog", "not_delivered", "duplicates", "slow", "node_down", "disk", "kafka"}

var checklist = []check{
	{"node", Symptoms, (*doctor).node},
	{"backlog", []string{"backlog", "not_delivered", "duplicates", "slow"}, (*doctor).backlog},
	{"unread", []string{"backlog", "not_delivered"}, (*doctor).unread},
	{"dead_letters", []string{"backlog", "not_delivered"}, (*doctor).deadLetters},
	{"switches", []string{"not_delivered", "slow"}, (*doctor).switches},
	{"redelivery", []string{"duplicates"}, (*doctor).redelivery},
	{"load", []string{"slow", "disk"}, (*doctor).load},
}

// Request says what to look at; the zero value is everything.
type Request struct {
	// Symptom is one of Symptoms, Queue and Group are names; "" is all.
	Symptom, Queue, Group string
}

// Run goes through the checklist at a time. Errors are those of the engine; a group that is nowhere is
// engine.CodeUnknownGroup, a symptom that is none is ErrSymptom.
func Run(ctx context.Context, e engine.Engine, who engine.Caller, now format.Wall, in Request) (out Report, err error) {
	if in.Symptom != "" && !slices.Contains(Symptoms, in.Symptom) {
		return out, ErrSymptom
	}
	d := &doctor{ctx: ctx, engine: e, caller: who}
	if d.sight, err = Look(ctx, e, who, now, in.Queue, in.Group); err != nil {
		return out, err
	}
	if in.Group != "" && len(d.sight.Groups) == 0 {
		return out, &engine.Error{Code: engine.CodeUnknownGroup}
	}
	if d.status, err = e.Status(ctx); err != nil {
		return out, err
	}
	d.stats = e.Inspect().Stats()
	out.Status, out.Stats = d.status, d.stats
	for i := range checklist {
		k := &checklist[i]
		if in.Symptom != "" && !slices.Contains(k.symptoms, in.Symptom) {
			continue
		}
		found, err := k.run(d)
		if err != nil {
			return out, err
		}
		outcome := "ok"
		if len(found) > 0 {
			outcome = "found"
		}
		out.Checks = append(out.Checks, CheckRun{k.name, outcome})
		out.Findings = append(out.Findings, found...)
	}
	slices.SortStableFunc(out.Findings, func(a, b Finding) int {
		return cmp.Or(severityRank(a.Severity)-severityRank(b.Severity), cmp.Compare(b.Lag, a.Lag))
	})
	return out, nil
}

// ErrSymptom is a symptom that is none of Symptoms.
var ErrSymptom = errors.New("symptom is none of " + strings.Join(Symptoms, ", "))

// node finds what keeps the node from working.
func (d *doctor) node() (out []Finding, err error) {
	for _, a := range Alarms(&d.status, &d.stats) {
		f := Finding{Cause: a.Code, Severity: a.Severity, Title: "The node raises an alarm", Evidence: []string{}, NextStep: a.Hint}
		for _, g := range d.status.RaftGroups() {
			if a.Code == noWrites && !g.CanWrite {
				f.Evidence = append(f.Evidence, fmt.Sprintf("raft group %d: %s", g.Group, g.Why))
			}
		}
		out = append(out, f)
	}
	return append(out, d.members()...), nil
}

// behindMax is how many entries a member may be behind the furthest one before that is told.
const behindMax = 10_000

// members finds nodes of the cluster that are silent or far behind.
func (d *doctor) members() (out []Finding) {
	m, ok := engine.MembershipOf(d.engine)
	if !ok {
		return nil
	}
	all := m.Members()
	var furthest format.Index
	for i := range all {
		furthest = max(furthest, all[i].Applied)
	}
	for i := range all {
		x := &all[i]
		name := fmt.Sprintf("node %d at %s", x.Node, x.Address)
		switch {
		case x.Reach() == "port_silent":
			out = append(out, Finding{Cause: "port_silent", Severity: "warning", Title: "A node of the cluster runs, and does not answer here",
				Evidence: []string{name, fmt.Sprintf("it leads: %t", x.Node == d.status.Leader)},
				NextStep: "Unless it is starting, let this node reach the port above its raft port: calls, copies of the state and answers go " +
					"there. While it leads, this node can not write; else log is kept for it as for one that is away."})
		case !x.Heard:
			out = append(out, Finding{Cause: "node_silent", Severity: "warning", Title: "A node of the cluster does not answer",
				Evidence: []string{name, fmt.Sprintf("it votes: %t", x.Votes)},
				NextStep: "Start it, or look at the network between the nodes. One whose disk is gone is removed and added under a new number."})
		case furthest-x.Applied > behindMax:
			out = append(out, Finding{Cause: "node_behind", Severity: "warning", Title: "A node of the cluster is far behind",
				Evidence: []string{name, fmt.Sprintf("%d entries behind the furthest", furthest-x.Applied)},
				NextStep: "It catches up by itself, unless its disk or network is too slow for what is written."})
		}
	}
	return out
}

// remedy is what is said about a reason.
type remedy struct{ severity, title, next string }

// remedies are the reasons that are findings; the others are normal.
var remedies = map[string]remedy{
	ReasonLeaseHeld: {"warning", "A worker holds a lease and does not acknowledge",
		"Look at that worker: it is slow, stuck or gone. The messages are handed out again when the lease ends; " +
			"raise leaseTime only if the work really takes that long."},
	ReasonPoison: {"warning", "A message is handed out again and again and blocks its partition",
		"Peek at the message at the cursor and at the worker's errors. After retryLimit failures it goes to the dead letters; " +
			"where workers die instead of failing, set maxDeliveries or settle it with status dlq."},
	ReasonNeverStarted: {"warning", "The consumer group was registered and has taken nothing since",
		"Start its workers, or delete the group if nobody needs it: its place keeps messages from being retained less."},
	ReasonNoConsumer: {"warning", "Messages could be taken and nobody asks for them",
		"The workers of this consumer group are gone or pop another queue, group or partition: start them and compare the names."},
	ReasonDelayed: {"info", "The queue delays messages on purpose",
		"delayedProcessing or windowBuffer holds them back: nothing is wrong. Configure the queue if the delay is not wanted."},
	ReasonRetryWait: {"info", "A message failed and waits for its next try",
		"retryDelay holds it back. If it fails again, peek at it."},
	ReasonWaiting: {"info", "The workers are busy with other partitions",
		"They make progress. If the backlog grows, add workers or let a pop take more partitions."},
}

// separate reasons have one finding per partition: each is a case of its own.
var separate = []string{ReasonLeaseHeld, ReasonPoison}

// backlog turns partitions that are behind into findings, one per consumer group and reason.
func (d *doctor) backlog() (out []Finding, err error) {
	at := map[string]int{}
	for _, r := range d.sight.Worst() {
		m, ok := remedies[r.Reason]
		if !ok {
			continue
		}
		key := fmt.Sprintf("%s\x00%q\x00%q", r.Reason, r.Queue, r.Group)
		if slices.Contains(separate, r.Reason) {
			key += fmt.Sprint(r.PartitionID)
		}
		if i, ok := at[key]; ok {
			out[i].Partitions++
			out[i].Lag += r.Lag
			continue
		}
		at[key] = len(out)
		out = append(out, Finding{Cause: r.Reason, Severity: m.severity, Title: m.title, Queue: r.Queue, Group: r.Group,
			Partition: r.Partition, Worker: r.Worker, Partitions: 1, Lag: r.Lag, Evidence: d.evidence(&r), NextStep: m.next})
	}
	return append(out, d.unseen()...), nil
}

// unseen finds consumer groups that have taken nothing although messages came after their registration. Where a group
// begins at what is new, only the log knows how many.
func (d *doctor) unseen() (out []Finding) {
	for i := range d.sight.Groups {
		g := &d.sight.Groups[i]
		known := slices.ContainsFunc(d.sight.Rows, func(r Behind) bool { return r.Queue == g.Queue && r.Group == g.Name })
		if g.Consumed || g.Cursors > 0 || g.Leases > 0 || known {
			continue
		}
		since := g.RegisteredAt + 1
		if g.Start.Kind != format.StartNew {
			since = 0
		}
		rows, _, err := d.engine.Catalog().Partitions(d.ctx, d.caller, g.Queue, since, engine.Page{Limit: 1})
		if err != nil || len(rows) == 0 || rows[0].End == rows[0].Start || d.sight.Now-rows[0].LastWriteAt < stuckAfter {
			continue
		}
		m := remedies[ReasonNeverStarted]
		out = append(out, Finding{Cause: ReasonNeverStarted, Severity: m.severity, Title: m.title, Queue: g.Queue, Group: g.Name,
			Partition: rows[0].Name, Partitions: 1, NextStep: m.next,
			Evidence: []string{"messages came after the group was registered", "it holds no lease and has no cursor"}})
	}
	return out
}

// evidence is what a reason rests on, in numbers.
func (d *doctor) evidence(r *Behind) []string {
	out := []string{fmt.Sprintf("%d messages behind", r.Lag)}
	if r.OldestAt != 0 {
		out = append(out, fmt.Sprintf("the oldest waits for %s", seconds(d.sight.Now-r.OldestAt)))
	}
	if r.LeasedAt != 0 {
		out = append(out, fmt.Sprintf("leased %s ago, %d messages, %s left", seconds(d.sight.Now-r.LeasedAt), r.Processing,
			seconds(r.LeaseExpires-d.sight.Now)))
	} else {
		out = append(out, "no lease is live")
	}
	if r.Attempts > 1 || r.Retries > 0 {
		out = append(out, fmt.Sprintf("handed out %d times, failed %d times", r.Attempts, r.Retries))
	}
	if r.HoldUntil > d.sight.Now {
		out = append(out, "held back for "+seconds(r.HoldUntil-d.sight.Now))
	}
	if until := d.sight.DelayedUntil(&r.LagRow); until > d.sight.Now {
		out = append(out, "delayed for another "+seconds(until-d.sight.Now))
	}
	return out
}

func seconds(w format.Wall) string { return fmt.Sprintf("%.0f s", float64(max(w, 0))/1e6) }

// unread finds queues that hold messages and were never read by anybody.
func (d *doctor) unread() (out []Finding, err error) {
	read := map[string]bool{}
	groups, err := groupsOf(d.ctx, d.engine, d.caller, "", "")
	if err != nil {
		return nil, err
	}
	for i := range groups {
		read[groups[i].Queue] = true
	}
	for name, q := range d.sight.Queues {
		if read[name] || name == AuditQueue || q.Messages == 0 || d.sight.Now-q.CreatedAt < stuckAfter {
			continue
		}
		out = append(out, Finding{Cause: "no_group", Severity: "warning", Title: "The queue holds messages and nobody has ever read it",
			Queue: name, Lag: q.Messages, Evidence: []string{fmt.Sprintf("%d messages, no consumer group", q.Messages)},
			NextStep: "Start a consumer. A group that shall see what is there already must start with subscriptionMode all."})
	}
	slices.SortFunc(out, func(a, b Finding) int { return cmp.Compare(a.Queue, b.Queue) })
	return out, nil
}

// deadLetters finds queues with messages that were given up.
func (d *doctor) deadLetters() (out []Finding, err error) {
	for name, q := range d.sight.Queues {
		if q.DeadLetters == 0 {
			continue
		}
		out = append(out, Finding{Cause: "dead_letters", Severity: "info", Title: "Messages were given up after their retries",
			Queue: name, Evidence: []string{fmt.Sprintf("%d dead letters", q.DeadLetters)},
			NextStep: "Look at the dead letters, mend the cause, then replay or purge them."})
	}
	slices.SortFunc(out, func(a, b Finding) int { return cmp.Compare(a.Queue, b.Queue) })
	return out, nil
}

// switches finds what an operator has switched off.
func (d *doctor) switches() (out []Finding, err error) {
	ops, ok := engine.OperationsOf(d.engine)
	if !ok {
		return nil, nil
	}
	s := ops.Switches()
	for _, k := range []struct {
		on   bool
		what string
	}{{s.KV, "writes of keys"}, {s.TimerSchedule, "new timers"}, {s.TimerFire, "the firing of timers"}} {
		if !k.on {
			out = append(out, Finding{Cause: "switched_off", Severity: "warning", Title: "An operator has switched something off",
				Evidence: []string{k.what + ": off"}, NextStep: "Ask the operator, or switch it on again."})
		}
	}
	return out, nil
}

// redelivery finds why messages arrive more than once.
func (d *doctor) redelivery() (out []Finding, err error) {
	for _, r := range d.sight.Worst() {
		if r.Attempts < 2 || r.Reason == ReasonPoison {
			continue
		}
		out = append(out, Finding{Cause: "redelivered", Severity: "info", Title: "A message was handed out more than once",
			Queue: r.Queue, Group: r.Group, Partition: r.Partition, Partitions: 1, Lag: r.Lag, Evidence: d.evidence(&r),
			NextStep: "Its lease ran out before the ack, or it failed. Finish within leaseTime, extend the lease, or commit the result and the ack in one transaction."})
		if len(out) == 20 {
			break
		}
	}
	return out, nil
}

// load finds what makes a working node slow.
func (d *doctor) load() (out []Finding, err error) {
	if d.stats.Overloaded > 0 {
		out = append(out, Finding{Cause: "overloaded", Severity: "info", Title: "Writes were refused because too many were under way",
			Evidence: []string{fmt.Sprintf("%d refused since the start, %d bytes under way now", d.stats.Overloaded, d.stats.InflightWriteBytes)},
			NextStep: "Look at the disk's latency and at write.bytes; producers should back off."})
	}
	if n, slow := slowCommits(&d.stats.CommitMicros); slow {
		out = append(out, Finding{Cause: "slow_disk", Severity: "warning", Title: "Commits take long",
			Evidence: []string{fmt.Sprintf("one commit in a hundred takes more than %d ms", n)}, NextStep: "Look at the disk under the data directory."})
	}
	return out, nil
}

// slowCommits tells the 99th percentile of commits in ms, and whether it is above a tenth of a second.
func slowCommits(h *engine.Histogram) (ms uint64, slow bool) {
	var all, seen uint64
	for _, n := range h.Counts {
		all += n
	}
	for i, n := range h.Counts {
		if seen += n; all >= 100 && seen*100 >= all*99 {
			ms = (uint64(1) << i) / 1000
			return ms, ms > 100
		}
	}
	return 0, false
}
