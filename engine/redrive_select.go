package engine

import (
	"context"
	"strings"

	"queen/engine/format"
	"queen/engine/machine"
)

// Bounds of looking for dead letters.
const (
	redrivePage  = 64     // moved in one call at most
	redriveLooks = 10_000 // looked at under the state's lock at once
	// What a count looks at: with a filter on the reason every row is read.
	redriveCounted = 1_000_000
	redriveRead    = 100_000
	// A sample has that many dead letters and, but for the first, that much payload.
	redriveSample      = 10
	redriveSampleBytes = 1 << 20
)

// deadCursor walks a queue's dead letters in the order in which they were filed, a page at a time: the order of their
// failures, and in one partition and consumer group the order of their offsets.
type deadCursor struct {
	after format.DeadLetterID
	at    format.Wall // when that one failed; where it went away meanwhile, the older ones are skipped
}

func (c *deadCursor) pass(d *machine.DeadLetter) { c.after, c.at = d.ID, d.FailedAt }

// deadPage is what one look found. last is the newest one looked at, looks how many were; at the end nothing follows.
type deadPage struct {
	found []machine.DeadLetter
	last  machine.DeadLetter
	looks int
	end   bool
}

// deadPage looks at most at redriveLooks dead letters behind c and takes at most limit that j selects, whatever the
// reason. false: there is no such queue.
func (n *Node) deadPage(j *RedriveJob, c deadCursor, limit int) (p deadPage, ok bool) {
	n.state.RLock()
	defer n.state.RUnlock()
	q, ok := n.state.m.QueueByName(j.Tenant, j.Queue)
	if !ok {
		return p, false
	}
	p.end = true
	n.state.m.DeadLettersFrom(q.ID, c.after, func(d machine.DeadLetter) bool {
		if d.FailedAt >= j.until {
			return false // so are all that follow
		}
		if p.looks == redriveLooks || len(p.found) == limit {
			p.end = false
			return false
		}
		p.looks++
		p.last = d
		if d.FailedAt >= c.at && d.FailedAt >= j.From && (j.Group == "" || d.Group == j.Group) {
			p.found = append(p.found, d)
		}
		return true
	})
	return p, true
}

// selects reads the reason where the job asks for one.
func (n *Node) selects(j *RedriveJob, d *machine.DeadLetter) (bool, error) {
	if j.Error == "" {
		return true, nil
	}
	reason, err := n.keyed.deadReason(d.ID[:])
	if reason == "" {
		reason = noReason
	}
	return strings.Contains(reason, j.Error), err
}

// newRedrive makes a job of a request: what fails from now on is not its, and what failed before is known here.
func (n *Node) newRedrive(ctx context.Context, c Caller, r RedriveRequest) (*RedriveJob, *Error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if err := n.catchUp(ctx); err != nil {
		return nil, err
	}
	j := &RedriveJob{RedriveRequest: r, Tenant: c.Tenant, State: RedriveRunning, Created: n.wall()}
	n.state.RLock()
	j.until = n.state.m.W() + 1
	_, known := n.state.m.QueueByName(c.Tenant, r.Queue)
	n.state.RUnlock()
	switch {
	case !known:
		return nil, errOfCode(format.CodeUnknownQueue)
	case r.GroupOnly && r.Group != "" && !n.hasGroup(c.Tenant, r.Queue, r.Group):
		return nil, errNoGroupLeft(r.Group)
	}
	if r.To != 0 {
		j.until = min(j.until, r.To)
	}
	return j, nil
}

// CountRedrive implements Operations.
func (n *Node) CountRedrive(ctx context.Context, c Caller, r RedriveRequest) (RedriveCount, error) {
	j, bad := n.newRedrive(ctx, c, r)
	if bad != nil {
		return RedriveCount{}, bad
	}
	return n.countRedrive(ctx, j, redriveSample)
}

func (n *Node) countRedrive(ctx context.Context, j *RedriveJob, sample int) (out RedriveCount, err error) {
	left, bytes := redriveCounted, 0
	if j.Error != "" {
		left = redriveRead
	}
	for at := (deadCursor{}); ; {
		p, ok := n.deadPage(j, at, redriveLooks)
		if !ok || ctx.Err() != nil {
			return out, errorOr(ctx, ok)
		}
		for i := range p.found {
			d := &p.found[i]
			switch ok, err := n.selects(j, d); {
			case err != nil:
				return out, errRead(err)
			case !ok:
				continue
			}
			out.Count++
			if len(out.Sample) == sample || bytes > redriveSampleBytes {
				continue
			}
			if dead, ok, err := n.deadLetter(j.Tenant, d); err == nil && ok {
				bytes += len(dead.Message.Payload)
				out.Sample = append(out.Sample, dead)
			}
		}
		if left -= p.looks; p.end || left <= 0 {
			out.AtLeast = !p.end
			return out, nil
		}
		at.pass(&p.last)
	}
}

// errorOr is why a walk ended: the queue went away, or the caller's time.
func errorOr(ctx context.Context, queue bool) error {
	if !queue {
		return errOfCode(format.CodeUnknownQueue)
	}
	return errContext(ctx, OutcomeNone)
}
