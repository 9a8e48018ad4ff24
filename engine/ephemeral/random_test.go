package ephemeral

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	seedFlag = flag.Uint64("seed", 1, "first seed of the random test")
	opsFlag  = flag.Int("ops", 60_000, "operations of the random test")
)

// The reference knows one queue as a list of messages and, for each group, what it thinks of each of them. It looks at
// everything at every step, and shares no code with the store.

type refState uint8

const (
	refNew    refState = iota // never handed out
	refLeased                 // until expiry
	refBack                   // waits for redelivery
)

// refView is what one group thinks of one message; it is absent when the group settled it, or does not read it.
type refView struct {
	state  refState
	failed int
	expiry int64
	auto   bool
}

type refMessage struct {
	id, part, payload string
	at                int64
	views             map[string]*refView
}

type refGroup struct {
	all  bool
	pins map[string]bool
}

type ref struct {
	messages []*refMessage
	groups   map[string]*refGroup
	settings Settings
	drops    Drops
	now      int64
}

func (f *ref) reads(group, part string) bool {
	g := f.groups[group]
	return g != nil && (g.all || g.pins[part])
}

// sweep takes away what every reader has settled.
func (f *ref) sweep() {
	f.messages = slices.DeleteFunc(f.messages, func(m *refMessage) bool {
		readers := false
		for name := range f.groups {
			readers = readers || f.reads(name, m.part)
		}
		return readers && len(m.views) == 0
	})
}

func (f *ref) advance(d time.Duration) {
	// Step by step, so that what ends first counts first.
	for end := f.now + d.Microseconds(); f.now < end; {
		next := end
		for _, m := range f.messages {
			if f.settings.TTLSeconds > 0 {
				next = min(next, max(f.now, m.at+f.settings.ttl()))
			}
			for _, v := range m.views {
				if v.state == refLeased {
					next = min(next, v.expiry)
				}
			}
		}
		f.now = next
		f.due()
	}
}

func (f *ref) due() {
	for _, m := range f.messages {
		for name, v := range m.views {
			if v.state == refLeased && v.expiry <= f.now {
				f.end(m, name, v)
			}
		}
	}
	if f.settings.TTLSeconds > 0 {
		f.messages = slices.DeleteFunc(f.messages, func(m *refMessage) bool {
			old := m.at+f.settings.ttl() <= f.now
			// One that its readers have settled at this very moment is not dropped for its age.
			if old && (len(m.views) > 0 || !f.read(m)) {
				f.drops.TTL++
			}
			return old
		})
	}
	f.sweep()
}

func (f *ref) read(m *refMessage) bool {
	for name := range f.groups {
		if f.reads(name, m.part) {
			return true
		}
	}
	return false
}

// end is a lease that ended, or a nack.
func (f *ref) end(m *refMessage, group string, v *refView) {
	if v.auto {
		delete(m.views, group)
		return
	}
	v.failed++
	v.state = refBack
	if int64(v.failed) >= f.settings.RetryLimit {
		delete(m.views, group)
		f.drops.Retry++
	}
}

// join gives a group what is there of the partitions that it reads from now on.
func (f *ref) join(group, part string, pinned bool) {
	g := f.groups[group]
	if g == nil {
		g = &refGroup{pins: map[string]bool{}}
		f.groups[group] = g
	}
	before := map[string]bool{}
	for _, m := range f.messages {
		before[m.part] = f.reads(group, m.part)
	}
	if pinned {
		g.pins[part] = true
	} else {
		g.all = true
	}
	for _, m := range f.messages {
		if !before[m.part] && f.reads(group, m.part) {
			m.views[group] = &refView{}
		}
	}
}

func (f *ref) push(part string, payloads []string) (ok bool) {
	n, size := int64(len(payloads)), int64(0)
	for _, p := range payloads {
		size += int64(len(p))
	}
	depth, bytes := int64(len(f.messages)), int64(0)
	for _, m := range f.messages {
		bytes += int64(len(m.payload))
	}
	if depth+n > f.settings.MaxLength || bytes+size > f.settings.MaxBytes {
		if f.settings.Policy != DropOldest || int64(len(payloads[n-1])) > f.settings.MaxBytes {
			return false
		}
	}
	for _, p := range payloads {
		m := &refMessage{part: part, payload: p, at: f.now, views: map[string]*refView{}}
		for name := range f.groups {
			if f.reads(name, part) {
				m.views[name] = &refView{}
			}
		}
		f.messages = append(f.messages, m)
	}
	total := func() (b int64) {
		for _, m := range f.messages {
			b += int64(len(m.payload))
		}
		return b
	}
	for int64(len(f.messages)) > f.settings.MaxLength || total() > f.settings.MaxBytes {
		f.messages = f.messages[1:]
		f.drops.Bounds++
	}
	return true
}

// judge checks what a pop got: messages that may be handed out, in order within each partition, redelivered ones first,
// as many as there are up to the batch. It takes them over.
func (f *ref) judge(d *Delivery, group, part string, pinned bool, batch int, auto bool) error {
	ready := func(m *refMessage) bool {
		v := m.views[group]
		return v != nil && v.state != refLeased && (!pinned || m.part == part)
	}
	want := 0
	for _, m := range f.messages {
		if ready(m) {
			want++
		}
	}
	want = min(want, batch)
	if d == nil {
		if want > 0 {
			return fmt.Errorf("got nothing, want %d", want)
		}
		return nil
	}
	if len(d.Messages) != want {
		return fmt.Errorf("got %d messages, want %d", len(d.Messages), want)
	}
	for _, got := range d.Messages {
		first := func(state refState) *refMessage {
			for _, m := range f.messages {
				if m.part == got.Partition && ready(m) && m.views[group].state == state {
					return m
				}
			}
			return nil
		}
		m := first(refBack)
		if m == nil {
			m = first(refNew)
		}
		if m == nil || m.payload != string(got.Payload) || m.views[group].failed != int(got.Failed) || m.id != "" && m.id != got.ID {
			return fmt.Errorf("got %s of %s (%d failed), want %+v", got.Payload, got.Partition, got.Failed, m)
		}
		m.id = got.ID
		v := m.views[group]
		v.state, v.expiry, v.auto = refLeased, f.now+f.settings.lease(), auto
	}
	return nil
}

func (f *ref) byID(id string) *refMessage {
	for _, m := range f.messages {
		if m.id == id {
			return m
		}
	}
	return nil
}

func (f *ref) ack(group, id string, status Status) Outcome {
	m := f.byID(id)
	if m == nil || m.views[group] == nil {
		return Unknown
	}
	v := m.views[group]
	switch {
	case v.state == refNew:
		return Unknown
	case v.state == refBack:
		return Stale
	case status == Completed:
		delete(m.views, group)
		f.sweep()
		return Acked
	}
	v.auto = false
	f.end(m, group, v)
	f.sweep()
	return Redelivered
}

// TestRandom runs random calls against the store and the reference and compares every answer, and the state after each.
func TestRandom(t *testing.T) {
	const perSeed = 2_000
	stats := map[string]int{}
	for seed := *seedFlag; int(seed-*seedFlag)*perSeed < *opsFlag; seed++ {
		d := &driver{rig: newRig(t, Options{}), r: rand.New(rand.NewPCG(seed, 7)), stats: stats}
		d.f = &ref{groups: map[string]*refGroup{}, settings: DefaultSettings(), now: d.clock.Mono()}
		d.configure()
		for op := range perSeed {
			if err := d.step(); err != nil {
				t.Fatalf("seed %d, call %d: %v", seed, op, err)
			}
			if err := checkStore(d.s); err != nil {
				t.Fatalf("seed %d, call %d: %v", seed, op, err)
			}
		}
		d.s.Close()
		stats["ttl"] += int(d.f.drops.TTL)
		stats["retry"] += int(d.f.drops.Retry)
	}
	t.Log(stats)
	for _, k := range []string{"full", "dropped", "acked", "redelivered", "stale", "unknown", "abandoned", "ttl", "retry", "auto", "parked"} {
		require.Positive(t, stats[k], k)
	}
}

type driver struct {
	*rig
	r     *rand.Rand
	f     *ref
	given []*Delivery // with the group in groupOf
	group []string
	next  int
	stats map[string]int
}

func (d *driver) configure() {
	s := Settings{MaxLength: int64(3 + d.r.IntN(30)), MaxBytes: int64(10 + d.r.IntN(200)), LeaseSeconds: int64(1 + d.r.IntN(5)),
		RetryLimit: int64(d.r.IntN(4)), TTLSeconds: int64(d.r.IntN(3) * d.r.IntN(8))}
	if d.r.IntN(2) == 0 {
		s.Policy = DropOldest
	}
	d.declare("q", s)
	d.f.settings, _ = s.Normal()
	d.f.due()
}

func (d *driver) part() string { return string(rune('a' + d.r.IntN(3))) }

func (d *driver) step() error {
	// No two calls at one time: what ends in the same microsecond may end in any order.
	d.clock.Advance(time.Microsecond)
	d.f.advance(time.Microsecond)
	switch n := d.r.IntN(100); {
	case n < 30:
		return d.pushSome()
	case n < 55:
		return d.popSome()
	case n < 58:
		return d.parkSome()
	case n < 78:
		return d.ackSome()
	case n < 84:
		return d.finishSome()
	case n < 97:
		by := time.Duration(d.r.IntN(2_000_000)) * time.Microsecond
		d.clock.Advance(by)
		d.f.advance(by)
	case n < 98:
		d.configure()
	default:
		got, err := d.s.Reset(someone, "q")
		if want := len(d.f.messages); err != nil || int(got) != want {
			return fmt.Errorf("reset %d, want %d: %v", got, want, err)
		}
		d.f.messages = nil
	}
	return d.compare()
}

func (d *driver) pushSome() error {
	part := d.part()
	var payloads []string
	var raw [][]byte
	for range 1 + d.r.IntN(6) {
		d.next++
		p := fmt.Sprint(d.next) + strings.Repeat("x", d.r.IntN(12))
		payloads, raw = append(payloads, p), append(raw, []byte(p))
	}
	before := d.f.drops
	err := d.s.Push(someone, PushRequest{Queue: "q", Partition: part, Payloads: raw})
	if want := d.f.push(part, payloads); want != (err == nil) {
		return fmt.Errorf("push: %v, want %v", err, want)
	}
	if err != nil {
		d.stats["full"]++
	}
	d.stats["dropped"] += int(d.f.drops.Bounds - before.Bounds)
	return nil
}

func (d *driver) popSome() error {
	q := PopRequest{Queue: "q", Group: []string{"", "g", "h"}[d.r.IntN(3)], Batch: 1 + d.r.IntN(5)}
	if q.Pinned = d.r.IntN(3) == 0; q.Pinned {
		q.Partition = d.part()
	}
	q.CommitOnDelivery = d.r.IntN(5) == 0
	got, err := d.s.Pop(context.Background(), someone, q)
	if err != nil {
		return err
	}
	d.f.join(q.Group, q.Partition, q.Pinned)
	return d.took(got, q)
}

func (d *driver) took(got *Delivery, q PopRequest) error {
	if err := d.f.judge(got, q.Group, q.Partition, q.Pinned, q.Batch, q.CommitOnDelivery); err != nil {
		return fmt.Errorf("pop %+v: %w", q, err)
	}
	if got != nil {
		d.given, d.group = append(d.given, got), append(d.group, q.Group)
	}
	return nil
}

// parkSome parks a pop where nothing is ready, and pushes to it.
func (d *driver) parkSome() error {
	q := PopRequest{Queue: "q", Group: "g", Batch: 1 + d.r.IntN(5)}
	for {
		got, err := d.s.Pop(context.Background(), someone, q)
		if err != nil {
			return err
		}
		d.f.join("g", "", false)
		if err := d.took(got, q); err != nil {
			return err
		}
		if got == nil {
			break
		}
	}
	p := d.park(q, time.Hour)
	if err := d.pushSome(); err != nil {
		return err
	}
	if p.waits() {
		p.cancel()
		<-p.answer
		return nil
	}
	d.stats["parked"]++
	return d.took(<-p.answer, q)
}

func (d *driver) ackSome() error {
	if len(d.given) == 0 {
		return nil
	}
	i := max(0, len(d.given)-1-d.r.IntN(6))
	group := d.group[i]
	if d.r.IntN(10) == 0 {
		group = "h"
	}
	for _, m := range d.given[i].Messages {
		if d.r.IntN(4) == 0 {
			continue
		}
		status := Status(d.r.IntN(3))
		out, err := d.s.Ack(someone, "q", group, []Ack{{m.ID, status}})
		if err != nil {
			return err
		}
		if want := d.f.ack(group, m.ID, status); out[0] != want {
			return fmt.Errorf("ack %s of %q with %d: %s, want %s", m.ID, group, status, out[0], want)
		}
		d.stats[string(out[0])]++
	}
	return nil
}

// finishSome ends a delivery as arrived or abandoned.
func (d *driver) finishSome() error {
	if len(d.given) == 0 {
		return nil
	}
	i := max(0, len(d.given)-1-d.r.IntN(4))
	got, group := d.given[i], d.group[i]
	d.given, d.group = slices.Delete(d.given, i, i+1), slices.Delete(d.group, i, i+1)
	arrived := d.r.IntN(2) == 0
	for k, m := range got.Messages {
		if got.turns[k].current() { // which turn it is only the store knows
			v := d.f.byID(m.ID).views[group]
			switch {
			case arrived && got.settles:
				delete(d.f.byID(m.ID).views, group)
				d.stats["auto"]++
			case !arrived:
				v.state = refBack
				d.stats["abandoned"]++
			}
		}
	}
	d.f.sweep()
	if arrived {
		got.Delivered()
	} else {
		got.Abandon()
	}
	return nil
}

// compare holds the state against the reference.
func (d *driver) compare() error {
	if d.s.find(someone, "q") == nil {
		return nil
	}
	depth, err := d.s.Depth(someone, "q", nil)
	if err != nil {
		return err
	}
	if int(depth.Depth) != len(d.f.messages) || depth.Drops != d.f.drops {
		return fmt.Errorf("depth %d, drops %+v; want %d, %+v", depth.Depth, depth.Drops, len(d.f.messages), d.f.drops)
	}
	for _, g := range depth.PerGroup {
		want := int64(0)
		for _, m := range d.f.messages {
			if m.views[g.Name] != nil {
				want++
			}
		}
		if g.Pending != want {
			return fmt.Errorf("group %q has %d pending, want %d", g.Name, g.Pending, want)
		}
	}
	return nil
}
