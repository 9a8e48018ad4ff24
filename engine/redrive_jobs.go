package engine

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"queen/engine/auth"
	"queen/engine/format"
)

// Bounds of jobs on one node, all tenants together.
const (
	maxRedrives  = 32  // under way
	keptRedrives = 256 // rows; the oldest finished ones make room
)

// redrives runs the jobs that move dead letters. A job is an administrative row before it moves anything, so that the
// next life of the node takes it up where it was; each runs in a goroutine of its own, at its own rate.
//
// INVARIANT: in a cluster who leads runs all jobs, whichever node was asked, and nobody else does: so a job keeps to its rate, and
// goes on when a node goes (replication's TestRedriveGoesOn). For a moment after an election two may; each dead letter is moved
// once all the same.
type redrives struct {
	n      *Node
	done   sync.WaitGroup // of jobs
	looks  sync.WaitGroup // of look
	nudge  chan struct{}
	making sync.Mutex // held while a job is made
	// quotas hold the jobs to the rates of their tenants' plans; none while there are no plans.
	quotas atomic.Pointer[auth.Quotas]

	mu      sync.Mutex
	stopped bool
	live    map[string]RedriveJob // under way, as of its last page
}

// setQuotas holds the node's jobs to rates.
func (n *Node) setQuotas(q *auth.Quotas) { n.redrives.quotas.Store(q) }

func newRedrives(n *Node) *redrives {
	return &redrives{n: n, nudge: make(chan struct{}, 1), live: map[string]RedriveJob{}}
}

// start takes up what an earlier life left, and in a cluster from then on what is this node's to run.
func (r *redrives) start() {
	r.takeUp(r.rows())
	if r.n.cluster != nil {
		r.looks.Add(1)
		go r.look()
	}
}

// poke has jobs looked for: this node was elected, or a row has changed.
func (r *redrives) poke() {
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}

func (r *redrives) look() {
	defer r.looks.Done()
	for {
		select {
		case <-r.nudge:
			if r.n.leading() {
				r.takeUp(r.readable(func(string, error) {})) // what can not be read was told of at the start
			}
		case <-r.n.stopping:
			return
		}
	}
}

// takeUp runs those of all jobs that are under way and do not run here.
func (r *redrives) takeUp(all []*RedriveJob) {
	for _, j := range all {
		if j.State == RedriveRunning {
			r.launch(j.ID)
		}
	}
}

// stop waits for the calls under way.
func (r *redrives) stop() {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.looks.Wait()
	r.done.Wait()
}

// launch runs a job unless it runs or has ended, another node leads, or this one stops. Its row is read once it is known not to run: a
// job that ends is saved before, so that it does not begin again with what was counted earlier.
func (r *redrives) launch(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, runs := r.live[id]; runs || r.stopped || r.n.closing() || !r.n.leading() {
		return
	}
	row, found := r.n.AdminRow(format.SystemTenant, format.AdminRedrive, id)
	j, err := decodeRedrive(row)
	if !found || err != nil || j.State != RedriveRunning {
		return
	}
	r.live[j.ID] = *j
	r.done.Add(1)
	u := &redriveRun{r: r, n: r.n, job: j}
	go func() {
		defer r.done.Done()
		u.run()
		r.mu.Lock()
		delete(r.live, j.ID)
		r.mu.Unlock()
		if u.isDeposed {
			r.poke() // the lead may be back, and the job was still here when it was looked for
		}
	}()
}

func (r *redrives) show(j *RedriveJob) {
	r.mu.Lock()
	r.live[j.ID] = *j
	r.mu.Unlock()
}

func (r *redrives) save(j *RedriveJob) error {
	_, err := r.n.SetAdmin(context.Background(), format.SystemTenant,
		AdminChange{Kind: format.AdminRedrive, Name: j.ID, Value: j.encode()})
	return err
}

// rows reads all jobs, oldest first. A row that can not be read is told of and left alone.
func (r *redrives) rows() []*RedriveJob {
	return r.readable(func(name string, err error) { r.n.event("redrive job "+name, err) })
}

func (r *redrives) readable(bad func(name string, err error)) (jobs []*RedriveJob) {
	for _, row := range r.n.AdminRows(format.SystemTenant, format.AdminRedrive, "", keptRedrives+maxRedrives) {
		j, err := decodeRedrive(row)
		if err != nil {
			bad(row.Name, err)
			continue
		}
		jobs = append(jobs, j)
	}
	slices.SortStableFunc(jobs, func(a, b *RedriveJob) int { return int(min(max(a.Created-b.Created, -1), 1)) })
	return jobs
}

// StartRedrive implements Operations.
func (n *Node) StartRedrive(ctx context.Context, c Caller, req RedriveRequest) (RedriveJob, error) {
	if n.closing() {
		return RedriveJob{}, &Error{Code: CodeClosed, Message: "the node is shutting down"}
	}
	j, bad := n.newRedrive(ctx, c, req)
	if bad != nil {
		return RedriveJob{}, bad
	}
	r := n.redrives
	j.ID = r.id(c)
	if old, err := n.RedriveJob(ctx, c, j.ID); err == nil {
		return old.sameAs(req)
	}
	count, err := n.countRedrive(ctx, j, 0)
	if err != nil {
		return RedriveJob{}, err
	}
	j.Total, j.AtLeast = count.Count, count.AtLeast
	r.making.Lock()
	defer r.making.Unlock()
	if old, err := n.RedriveJob(ctx, c, j.ID); err == nil {
		return old.sameAs(req)
	}
	if err := r.room(ctx); err != nil {
		return RedriveJob{}, err
	}
	out := *j
	if err := r.save(j); err != nil {
		return RedriveJob{}, err
	}
	r.launch(j.ID)
	return out, nil
}

// sameAs answers a repeated call with the job that it made.
func (j RedriveJob) sameAs(req RedriveRequest) (RedriveJob, error) {
	if j.RedriveRequest != req {
		return RedriveJob{}, &Error{Code: CodeIdempotencyClash, Field: "Idempotency-Key", Message: "the key belongs to another job"}
	}
	return j, nil
}

// id is a new job's, or of a repeated call's always the same.
func (r *redrives) id(c Caller) string {
	var id format.UUID
	if c.Key == "" {
		r.n.cfg.Rand.Fill(id[:])
	} else {
		sum := xxh3.HashString128(string(c.Tenant[:]) + "redrive" + c.Key).Bytes()
		copy(id[:], sum[:])
	}
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id.String()
}

// room refuses a job too many, and lets the oldest finished ones go.
func (r *redrives) room(ctx context.Context) error {
	jobs := r.rows()
	running := 0
	for _, j := range jobs {
		if j.State == RedriveRunning {
			running++
		}
	}
	if running >= maxRedrives {
		return &Error{Code: CodeOverloaded, RetryAfter: pausedFor, Field: "queue", Limit: strconv.Itoa(maxRedrives) + " jobs under way",
			Message: "too many redrive jobs are under way: " + strconv.Itoa(maxRedrives)}
	}
	over := len(jobs) + 1 - keptRedrives
	for _, j := range jobs {
		if over <= 0 {
			break
		}
		if j.State == RedriveRunning {
			continue
		}
		change := AdminChange{Kind: format.AdminRedrive, Name: j.ID, Delete: true}
		if _, err := r.n.SetAdmin(ctx, format.SystemTenant, change); err != nil {
			return err
		}
		over--
	}
	return nil
}

// RedriveJob implements Operations.
func (n *Node) RedriveJob(ctx context.Context, c Caller, id string) (RedriveJob, error) {
	none := &Error{Code: CodeNotFound, Message: "there is no such redrive job"}
	if n.mayLag() { // another node may have been asked for it a moment ago
		if err := n.catchUp(ctx); err != nil {
			return RedriveJob{}, err
		}
	}
	n.redrives.mu.Lock()
	j, ok := n.redrives.live[id]
	n.redrives.mu.Unlock()
	if !ok {
		row, found := n.AdminRow(format.SystemTenant, format.AdminRedrive, id)
		if !found {
			return RedriveJob{}, none
		}
		read, err := decodeRedrive(row)
		if err != nil {
			return RedriveJob{}, &Error{Code: CodeCorrupt, Message: "the job's row can not be read", Cause: err}
		}
		j = *read
	}
	if j.Tenant != c.Tenant {
		return RedriveJob{}, none
	}
	return j, nil
}
