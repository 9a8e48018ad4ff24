package engine

import (
	"context"
	"fmt"
	"strconv"

	"queen/engine/format"
	"queen/engine/keyed"
	"queen/engine/machine"
)

// committedStep is how many positions are looked at while the state's lock is held.
const committedStep = 4096

// CommitOffsets implements Records.
func (r recordsDoor) CommitOffsets(ctx context.Context, c Caller, g GroupCommit) ([]*Error, error) {
	if g.Producer.ID != NoProducer {
		return r.commitInTxn(ctx, c, &g)
	}
	if err := checkGroupName(g.Group); err != nil {
		return nil, err
	}
	out := make([]*Error, len(g.Positions))
	cmd := format.Group{Tenant: c.Tenant, Op: format.GroupCommit, Name: viewBytes(g.Group), Guarded: g.Fenced, At: g.Row,
		Positions: make([]format.Position, 0, len(g.Positions))}
	var at []int // which positions the command holds
	for i := range g.Positions {
		p := &g.Positions[i]
		if out[i] = p.check(g.Group); out[i] != nil {
			continue
		}
		at = append(at, i)
		cmd.Positions = append(cmd.Positions, format.Position{Queue: viewBytes(p.Queue), Partition: viewBytes(p.Partition), To: p.Offset,
			LeaderEpoch: max(p.LeaderEpoch, format.NoLeaderEpoch), Metadata: viewBytes(p.Metadata)})
	}
	if len(at) > format.MaxListItems {
		return nil, errBad("positions", strconv.Itoa(format.MaxListItems), "too many positions in one commit")
	}
	if len(at) == 0 && !g.Fenced {
		return out, nil
	}
	s := newSubmission(consumption)
	s.buf.AddGroup(&cmd)
	if s.size() > r.n.fuser.most {
		s.recycle()
		return nil, r.n.fuser.tooLarge()
	}
	if err := r.n.commit(ctx, s); err != nil {
		return nil, err
	}
	defer s.flight.release()
	it := &s.items()[0]
	if err := errOfCode(it.Code); err != nil {
		return nil, err
	}
	for _, refused := range s.flight.results.Groups[it.At].Refused {
		out[at[refused.At]] = errOfCode(refused.Code)
	}
	return out, nil
}

func (p *GroupPosition) check(group string) *Error {
	other := p.Partition
	if len(group) > len(other) {
		other = group
	}
	if len(p.Metadata) > format.MaxPositionMetadata {
		return &Error{Code: CodeTooLarge, Field: "metadata", Limit: strconv.Itoa(format.MaxPositionMetadata) + " bytes",
			Message: "the metadata of a position is too large"}
	}
	return checkNames(p.Queue, other, "group")
}

// Committed implements Records.
func (r recordsDoor) Committed(ctx context.Context, c Caller, group string, refs []PartitionRef) ([]GroupOffset, error) {
	if err := checkGroupName(group); err != nil {
		return nil, err
	}
	if err := r.n.catchUp(ctx); err != nil {
		return nil, err
	}
	if refs == nil {
		return r.committedAll(ctx, c, group)
	}
	look := committedLook{n: r.n}
	out := make([]GroupOffset, len(refs))
	for from := 0; from < len(refs); from += committedStep {
		if ctx.Err() != nil {
			return nil, errContext(ctx, OutcomeNone)
		}
		r.n.state.RLock()
		for i := from; i < min(from+committedStep, len(refs)); i++ {
			out[i].PartitionRef = refs[i]
			out[i].Unstable = r.n.state.m.PendingPosition(c.Tenant, group, refs[i].Queue, refs[i].Partition)
			if row, ok := r.n.state.m.Committed(c.Tenant, refs[i].Queue, refs[i].Partition, group); ok {
				look.take(&out[i], i, &row)
			}
		}
		look.fix()
		r.n.state.RUnlock()
		if err := look.finish(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// committedAll lists every position of a group, queue by queue.
func (r recordsDoor) committedAll(ctx context.Context, c Caller, group string) ([]GroupOffset, error) {
	r.n.state.RLock()
	queues := r.n.state.m.QueuesOfGroup(c.Tenant, group)
	r.n.state.RUnlock()
	look, out := committedLook{n: r.n}, []GroupOffset{}
	for i := range queues {
		for after := format.PartitionID(0); ; {
			if ctx.Err() != nil {
				return nil, errContext(ctx, OutcomeNone)
			}
			r.n.state.RLock()
			rows, next := r.n.state.m.CommittedPage(queues[i].ID, group, after, committedStep, committedStep)
			for k := range rows {
				out = append(out, GroupOffset{PartitionRef: PartitionRef{queues[i].Name, rows[k].Name},
					Unstable: r.n.state.m.PendingPosition(c.Tenant, group, queues[i].Name, rows[k].Name)})
				look.take(&out[len(out)-1], len(out)-1, &rows[k])
			}
			look.fix()
			r.n.state.RUnlock()
			if err := look.finish(out); err != nil {
				return nil, err
			}
			if after = next; next == 0 {
				break
			}
		}
	}
	return out, nil
}

// committedLook reads what was said with positions: live rows are taken while the state is held, the others read
// afterwards.
type committedLook struct {
	n    *Node
	rows []committedRow
	view keyed.View
}

type committedRow struct {
	at   int
	key  []byte
	head machine.KeyHead
	row  keyed.Row
	live bool
}

// take fills in what the state says of one position.
func (l *committedLook) take(out *GroupOffset, at int, row *machine.Committed) {
	out.Found, out.Offset, out.LeaderEpoch = true, row.Offset, row.LeaderEpoch
	if row.Key == nil {
		return
	}
	v := l.n.keyed.view.Load()
	said := committedRow{at: at, key: row.Key, head: row.Head}
	said.row, said.live = v.Live(row.Key)
	l.rows = append(l.rows, said)
}

// fix keeps what lies below the live rows as it is now; the state is held.
func (l *committedLook) fix() { l.view = l.n.keyed.view.Load().Below() }

// finish reads what take noted, and forgets it.
func (l *committedLook) finish(out []GroupOffset) error {
	for i := range l.rows {
		r := &l.rows[i]
		value, found := r.row.Value, r.live && !r.row.Tombstone
		if !r.live {
			var err error
			if value, found, err = l.view.Get(r.key); err != nil {
				return errRead(err)
			}
		}
		if err := checkRow(r.key, value, found, &r.head); err != nil {
			return errRead(err)
		}
		said, err := format.ParsePositionRow(value)
		if err != nil {
			return errRead(fmt.Errorf("engine: what was said with a position: %w", err))
		}
		o := &out[r.at]
		o.Metadata = string(said.Metadata)
		if said.Asked != said.At && o.Offset == said.At {
			o.Offset = said.Asked
		}
	}
	l.rows = l.rows[:0]
	return nil
}
