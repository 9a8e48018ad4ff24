package ephemeral

import (
	"strconv"
	"strings"

	"queen/engine/format"
)

// MaxAcks bounds the messages of one Ack call.
const MaxAcks = 10_000

// Status is a consumer's verdict.
type Status uint8

const (
	// Completed settles the message; it is the zero value.
	Completed Status = 0
	// Failed and Retry give it back, counted as a failed delivery. They do the same (S-eph-6).
	Failed Status = 1
	Retry  Status = 2
)

// Ack is a verdict about one message.
type Ack struct {
	ID     string
	Status Status
}

// Outcome is what an Ack did.
type Outcome string

const (
	// Acked: settled for the group.
	Acked Outcome = "acked"
	// Redelivered: taken back; it is handed out again, or dropped when that was its last try (S-eph-6).
	Redelivered Outcome = "redelivered"
	// Stale: the message is there, or was in another life of the node, and its lease is not yours any more.
	Stale Outcome = "stale"
	// Unknown: there is no such message for this group: settled, dropped, or never handed out.
	Unknown Outcome = "unknown"
)

// Ack settles messages of one group, each alone; outcomes are in the order of acks. Nothing is fenced by a lease: an
// ack counts for whoever has the message leased in the group.
func (s *Store) Ack(t format.Tenant, queue, name string, acks []Ack) ([]Outcome, error) {
	if err := checkName("queue", queue, false); err != nil {
		return nil, err
	}
	if err := checkName("group", name, true); err != nil {
		return nil, err
	}
	if len(acks) > MaxAcks {
		return nil, bad("acks", "10000", "more than 10000 acks in one call")
	}
	out := make([]Outcome, len(acks))
	s.begin()
	defer s.end()
	if err := s.usable(); err != nil {
		return nil, err
	}
	var g *group
	if q := s.find(t, queue); q != nil {
		g = q.groups[name]
	}
	var again []turn
	for i := range acks {
		var d *delivery
		d, out[i] = s.locate(g, acks[i].ID)
		switch {
		case d == nil:
		case !d.lease.in():
			out[i] = Stale // its lease ran out, and it waits for another consumer
		case acks[i].Status == Completed:
			s.settle(d)
			s.counts.Acked++
			out[i] = Acked
		default:
			s.leaseEnd(d)
			s.fail(d)
			again = append(again, turn{d: d})
			out[i] = Redelivered
		}
	}
	s.wakeAll(again)
	return out, nil
}

// locate finds the delivery that an id means; the outcome is for when there is none.
func (s *Store) locate(g *group, id string) (*delivery, Outcome) {
	rest, ours := strings.CutPrefix(id, s.prefix)
	at := strings.LastIndexByte(rest, ':')
	switch {
	case !ours && foreign(id):
		return nil, Stale
	case !ours || at < 0 || g == nil:
		return nil, Unknown
	}
	n, err := strconv.ParseUint(rest[at+1:], 10, 64)
	c := g.cursors[rest[:at]]
	if err != nil || c == nil || rest[at+1:] != strconv.FormatUint(n, 10) {
		return nil, Unknown
	}
	return c.held[n], Unknown
}

// foreign reports an id of another incarnation.
func foreign(id string) bool {
	rest, ok := strings.CutPrefix(id, "e:")
	incarnation, after, more := strings.Cut(rest, ":")
	_, err := strconv.ParseUint(incarnation, 16, 64)
	return ok && more && err == nil && strings.Contains(after, ":")
}

// settle ends a delivery for good: the message goes when nobody else wants it.
func (s *Store) settle(d *delivery) {
	s.drop(d)
	s.unwant(d.m)
}

// fail counts a failed delivery whose lease is over: the message waits for another try, or it had its last.
func (s *Store) fail(d *delivery) {
	d.failed++
	s.counts.Redelivered++
	q := d.c.part.queue
	if int64(d.failed) >= q.settings.RetryLimit {
		q.drops.Retry++
		s.counts.Dropped.Retry++
		s.settle(d)
		return
	}
	s.wait(d)
}

// wait puts a delivery back to be handed out again, before what was never handed out.
func (s *Store) wait(d *delivery) {
	d.c.again.set(&d.back, int64(d.m.n))
	s.changed(d.c, 1)
}

// wakeAll offers what came back to parked pops, once it is all there.
func (s *Store) wakeAll(turns []turn) {
	for _, t := range turns {
		if t.d.back.in() {
			s.offer(t.d.c)
		}
	}
}
