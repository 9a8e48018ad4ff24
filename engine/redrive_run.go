package engine

import (
	"context"
	"errors"
	"time"

	"queen/engine/auth"
	"queen/engine/machine"
)

// Bounds of a job's run.
const (
	redriveBytes = 1 << 20     // of payload in one call, but for the first message
	redriveAgain = time.Second // until a refused call is tried again
	redriveSave  = time.Second // between two savings of what a job counts
)

// redriveRun is a job under way, owned by its goroutine.
type redriveRun struct {
	r     *redrives
	n     *Node
	job   *RedriveJob
	began int64 // monotonic
	tried int64 // since then
	saved int64 // monotonic time of the last saving

	isDeposed bool // it ended since another node leads
}

// run moves page by page until nothing selected is left, or the node stops or leads no more: then the row says that the job
// goes on.
func (u *redriveRun) run() {
	u.began = u.n.cfg.Clock.Mono()
	for u.goesOn() {
		j := u.job
		p, ok := u.n.deadPage(j, deadCursor{j.left, j.leftAt}, u.pageSize())
		if !ok {
			u.end(RedriveFailed, &Error{Code: CodeUnknownQueue, Message: "the queue was deleted"})
			return
		}
		if !u.page(&p) {
			return
		}
		if p.end {
			u.end(RedriveDone, nil)
			return
		}
		u.progress(false)
		u.sleep(pace(j.PerSecond, u.tried, u.n.cfg.Clock.Mono()-u.began))
	}
}

// goesOn says that the job is this node's to run.
func (u *redriveRun) goesOn() bool {
	if !u.n.leading() {
		u.isDeposed = true
	}
	return !u.isDeposed && !u.n.closing()
}

// pageSize keeps a slow job from moving in bursts: a tenth of a second's worth.
func (u *redriveRun) pageSize() int {
	if u.job.PerSecond == 0 {
		return redrivePage
	}
	return min(max(u.job.PerSecond/10, 1), redrivePage)
}

// pace is how long to wait when tried moves took us microseconds, so that there are no more than rate a second.
func pace(rate int, tried, us int64) time.Duration {
	if rate == 0 {
		return 0
	}
	return time.Duration(max(tried*1_000_000/int64(rate)-us, 0)) * time.Microsecond
}

// page moves what a look found, in order, in calls that are bounded in bytes. The cursor passes what stays only: what
// was moved is no longer there to be found. false: the job does not go on here.
func (u *redriveRun) page(p *deadPage) bool {
	j, n := u.job, u.n
	var call []machine.DeadLetter
	bytes := 0
	for i := range p.found {
		d := &p.found[i]
		want, err := n.selects(j, d)
		size := 0
		if want && err == nil {
			var dead DeadLetter
			if dead, want, err = n.deadLetter(j.Tenant, d); err == nil {
				size = len(dead.Message.Payload)
			}
		}
		if want && err == nil && (len(call) == 0 || bytes+size <= redriveBytes) {
			call, bytes = append(call, *d), bytes+size
			continue
		}
		if !u.move(call) {
			return false
		}
		call, bytes = call[:0], 0
		switch {
		case err != nil:
			j.fail(err)
			u.leave(d)
		case !want:
			u.leave(d)
		default:
			call, bytes = append(call, *d), size
		}
	}
	if !u.move(call) {
		return false
	}
	if _, there := n.deadByID(j, &p.last); there {
		u.leave(&p.last)
	}
	return true
}

// leave passes a dead letter that stays.
func (u *redriveRun) leave(d *machine.DeadLetter) {
	u.job.left, u.job.leftAt = d.ID, max(u.job.leftAt, d.FailedAt)
}

// deadByID tells whether a dead letter is still there.
func (n *Node) deadByID(j *RedriveJob, d *machine.DeadLetter) (machine.DeadLetter, bool) {
	n.state.RLock()
	defer n.state.RUnlock()
	return n.state.m.DeadLetterByID(j.Tenant, d.ID)
}

// move carries out one call; what the moment refuses is tried again, so that nothing is overtaken in its partition by
// what failed after it, unless a refusal is about that message alone. false: the job does not go on here.
func (u *redriveRun) move(dead []machine.DeadLetter) bool {
	return u.admit(len(dead)) && u.moveAdmitted(dead, false)
}

// admit waits until the tenant's plan lets so many messages pass. false: the job does not go on here.
func (u *redriveRun) admit(messages int) bool {
	for {
		ok, after := u.r.quotas.Load().Take(auth.Tenant(u.job.Tenant), auth.Messages, messages)
		if ok {
			return true
		}
		if !u.sleep(min(after, redriveAgain)) {
			return false
		}
	}
}

// moveAdmitted is move of what the plan lets pass; unknown says that an earlier try may have moved some.
func (u *redriveRun) moveAdmitted(dead []machine.DeadLetter, unknown bool) bool {
	for len(dead) > 0 {
		ops := make([]Op, len(dead))
		for i := range dead {
			ops[i] = &Redrive{DeadLetter: dead[i].ID, GroupOnly: u.job.GroupOnly}
		}
		res, err := u.n.Do(context.Background(), Caller{Tenant: u.job.Tenant}, Batch{Ops: ops})
		var e *Error
		switch {
		case err == nil:
			dead = u.count(dead, res, unknown)
			if len(dead) == 0 {
				return true
			}
		case !errors.As(err, &e) || e.Code == CodeClosed:
			return false
		case passing(e.Code):
			unknown = unknown || e.Outcome == OutcomeUnknown
		case len(dead) > 1: // one by one
			return u.moveAdmitted(dead[:1], unknown) && u.moveAdmitted(dead[1:], unknown)
		default:
			u.job.fail(e)
			u.tried++
			u.leave(&dead[0])
			return true
		}
		if !u.sleep(redriveAgain) {
			return false
		}
	}
	return true
}

// count notes what became of a call's messages and returns those to try again.
func (u *redriveRun) count(dead []machine.DeadLetter, res []Result, unknown bool) (again []machine.DeadLetter) {
	j := u.job
	for i := range res {
		e := res[i].Err
		if e != nil && passing(e.Code) {
			again = append(again, dead[i])
			continue
		}
		u.tried++
		switch {
		case e == nil && !res[i].Redrive.Duplicate:
			j.Moved++
			continue
		case e == nil:
			j.Duplicates++
		case e.Code == CodeGone && unknown:
			j.Moved++
			continue
		case e.Code == CodeGone:
			j.Gone++
			continue
		default:
			j.fail(e)
		}
		u.leave(&dead[i])
	}
	return again
}

// passing says that a refusal is about the moment and not about the message.
func passing(c ErrorCode) bool {
	switch c {
	case CodeOverloaded, CodeStorageFull, CodeTimeout, CodeOutcomeUnknown, CodeNoLeader, CodeRetry, CodePaused:
		return true
	}
	return false
}

// sleep waits on the node's clock; false: the job does not go on here.
func (u *redriveRun) sleep(d time.Duration) bool {
	if d <= 0 {
		return u.goesOn()
	}
	timer := u.n.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return u.goesOn()
	case <-u.n.stopping:
		return false
	}
}

// progress shows what is counted, and saves it now and then.
func (u *redriveRun) progress(save bool) bool {
	u.r.show(u.job)
	now := u.n.cfg.Clock.Mono()
	if !save && now-u.saved < redriveSave.Microseconds() {
		return true
	}
	u.saved = now
	return u.r.save(u.job) == nil
}

// end saves how the job ended; where that comes to nothing the job is taken up again and finds nothing left.
func (u *redriveRun) end(s RedriveState, why error) {
	u.job.State, u.job.Ended = s, u.n.wall()
	if why != nil {
		u.job.because(why)
	}
	for !u.progress(true) && u.sleep(redriveAgain) {
	}
}
