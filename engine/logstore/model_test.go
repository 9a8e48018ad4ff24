package logstore

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"

	"queen/engine/format"
)

// model is what a store must hold: a few lines of slices and maps, without files. It is changed in steps,
// one per record, so that every state a crash may leave is one of its states.
type model struct {
	replicas map[replicaKey]*modelReplica
}

type modelReplica struct {
	bootstrap     *format.Bootstrap
	state         HardState
	commit        format.Index // newest known
	durableCommit format.Index // newest that was written
	snapshot      *format.Snapshot
	floor         format.Index
	base          format.Index // of entries[0]; 0 = nothing was ever put
	entries       []Entry
	outcomes      map[format.Index]format.Term
}

func newModel() *model { return &model{replicas: map[replicaKey]*modelReplica{}} }

func (m *model) clone() *model {
	out := newModel()
	for k, r := range m.replicas {
		c := *r
		c.entries = slices.Clone(r.entries)
		c.outcomes = maps.Clone(r.outcomes)
		out.replicas[k] = &c
	}
	return out
}

func (m *model) replica(k replicaKey) *modelReplica {
	r := m.replicas[k]
	if r == nil {
		r = &modelReplica{outcomes: map[format.Index]format.Term{}}
		m.replicas[k] = r
	}
	return r
}

func (r *modelReplica) last() format.Index {
	if r.base == 0 {
		return 0
	}
	return r.base + format.Index(len(r.entries)) - 1
}

func (r *modelReplica) first() format.Index { return max(r.base, r.floor+1) }

func (r *modelReplica) cut(i format.Index) {
	if r.base != 0 && i <= r.last() {
		r.entries = r.entries[:max(i, r.base)-r.base]
	}
}

// steps lists the changes of a save, in the order in which they may become durable.
func steps(v *Save) []func(m *model) {
	k := v.key()
	var all []func(m *model)
	add := func(f func(r *modelReplica)) {
		all = append(all, func(m *model) { f(m.replica(k)) })
	}
	if v.Remove {
		all = append(all, func(m *model) { delete(m.replicas, k) })
	}
	if v.Bootstrap != nil {
		add(func(r *modelReplica) { r.bootstrap = v.Bootstrap })
	}
	if v.State != nil {
		add(func(r *modelReplica) { r.state = *v.State })
	}
	if v.Snapshot != nil {
		add(func(r *modelReplica) {
			if v.Install {
				r.base, r.entries = v.Snapshot.Index+1, nil
			}
			if r.snapshot == nil || v.Snapshot.Index > r.snapshot.Index {
				r.snapshot = v.Snapshot
			}
		})
	}
	for i := range v.Entries {
		e := v.Entries[i]
		if e.prefixBytes()+len(e.Data) > format.FragmentBytes {
			add(func(r *modelReplica) { r.cut(e.Index) })
		}
		add(func(r *modelReplica) {
			r.cut(e.Index)
			if r.base == 0 {
				r.base = e.Index
			}
			r.entries = append(r.entries, e)
		})
	}
	for _, o := range v.Outcomes {
		add(func(r *modelReplica) {
			for i := o.First; i <= o.Last; i++ {
				r.outcomes[i] = o.Term
			}
		})
	}
	if v.Floor != 0 {
		add(func(r *modelReplica) { r.floor = max(r.floor, v.Floor) })
	}
	if v.Commit != 0 {
		add(func(r *modelReplica) {
			r.commit = max(r.commit, v.Commit)
			if v.needsWrite() {
				r.durableCommit = r.commit
			}
		})
	}
	return all
}

func (m *model) apply(v *Save) {
	for _, f := range steps(v) {
		f(m)
	}
}

// differs compares a store with the model; empty if they agree. After a crash the commit index may be
// older, back to the durable one.
func (m *model) differs(s *Store, crashed bool) string {
	states := s.Replicas()
	byKey := map[replicaKey]ReplicaState{}
	for _, st := range states {
		byKey[replicaKey{st.Group, st.Replica}] = st
	}
	if len(byKey) != len(m.replicas) {
		return fmt.Sprintf("%d replicas, want %d", len(byKey), len(m.replicas))
	}
	for k, r := range m.replicas {
		st, ok := byKey[k]
		low := r.commit
		if crashed {
			low = r.durableCommit
		}
		switch {
		case !ok:
			return fmt.Sprintf("%v is missing", k)
		case st.State != r.state:
			return fmt.Sprintf("%v state %+v, want %+v", k, st.State, r.state)
		case st.Commit < low || st.Commit > r.commit:
			return fmt.Sprintf("%v commit %d, want %d to %d", k, st.Commit, low, r.commit)
		case !sameBootstrap(st.Bootstrap, r.bootstrap):
			return fmt.Sprintf("%v bootstrap %+v, want %+v", k, st.Bootstrap, r.bootstrap)
		case !sameSnapshot(st.Snapshot, r.snapshot):
			return fmt.Sprintf("%v snapshot %+v, want %+v", k, st.Snapshot, r.snapshot)
		case st.Floor != r.floor:
			return fmt.Sprintf("%v floor %d, want %d", k, st.Floor, r.floor)
		case st.Last != r.last() || len(r.entries) > 0 && st.First != r.first():
			return fmt.Sprintf("%v holds [%d, %d], want [%d, %d]", k, st.First, st.Last, r.first(), r.last())
		}
		if diff := r.entriesDiffer(s, k); diff != "" {
			return fmt.Sprintf("%v: %s", k, diff)
		}
	}
	return ""
}

func (r *modelReplica) entriesDiffer(s *Store, k replicaKey) string {
	first := r.first()
	if first > r.last() {
		return ""
	}
	got, err := s.Entries(nil, k.group, k.replica, first, r.last()+1, 1<<40, nil)
	if err != nil {
		return err.Error()
	}
	want := r.entries[first-r.base:]
	if len(got) != len(want) {
		return fmt.Sprintf("%d entries from %d, want %d", len(got), first, len(want))
	}
	for i := range want {
		if g, w := got[i], want[i]; !bytes.Equal(g.Data, w.Data) {
			return fmt.Sprintf("entry %d: data differ", w.Index)
		} else if g.Data, w.Data = nil, nil; !reflect.DeepEqual(g, w) {
			return fmt.Sprintf("entry %+v, want %+v", g, w)
		}
		if t, ok := s.Term(k.group, k.replica, want[i].Index); !ok || t != want[i].Term {
			return fmt.Sprintf("entry %d: term %d", want[i].Index, t)
		}
	}
	return ""
}

func sameBootstrap(a, b *format.Bootstrap) bool {
	if a == nil || b == nil {
		return a == b
	}
	_, x := a.Record()
	_, y := b.Record()
	return bytes.Equal(x, y)
}

func sameSnapshot(a, b *format.Snapshot) bool {
	if a == nil || b == nil {
		return a == b
	}
	_, x := a.Record()
	_, y := b.Record()
	return a.Index == b.Index && a.Term == b.Term && a.Dummy == b.Dummy && bytes.Equal(x, y)
}

// generator makes legal saves for a few replicas: what raft would ask for.
type generator struct {
	r      *rand.Rand
	m      *model
	keys   []replicaKey
	data   int // most bytes of an entry
	many   int // most entries of a save
	noWild bool
}

func newGenerator(seed uint64, groups, data, many int) *generator {
	g := &generator{r: rand.New(rand.NewPCG(seed, 1)), m: newModel(), data: data, many: many}
	for i := range groups {
		g.keys = append(g.keys, replicaKey{format.RaftGroup(i + 1), format.Replica(i + 10)})
	}
	return g
}

// next makes a save and takes it into the model.
func (g *generator) next() *Save {
	k := g.keys[g.r.IntN(len(g.keys))]
	r := g.m.replica(k)
	v := &Save{Group: k.group, Replica: k.replica}
	if r.bootstrap == nil {
		v.Bootstrap = &format.Bootstrap{
			Group: k.group, Replica: k.replica, Type: 3,
			Members: []format.Member{{Role: format.MemberVoter, Replica: k.replica, Address: "a:1"}},
		}
	}
	switch p := g.r.IntN(100); {
	case p < 45:
		g.addEntries(v, r, r.last()+1)
	case p < 58:
		if r.last() > r.commit {
			v.State = &HardState{Term: r.state.Term + 1, Vote: k.replica}
			g.addEntries(v, r, r.commit+1+format.Index(g.r.IntN(int(r.last()-r.commit))))
		}
	case p < 68:
		v.State = &HardState{Term: r.state.Term + 1, Vote: format.Replica(g.r.IntN(3))}
	case p < 80:
		if r.last() > r.commit {
			v.Commit = r.commit + 1 + format.Index(g.r.IntN(int(r.last()-r.commit)))
		}
	case p < 86:
		g.addDummy(v, r)
	case p < 90:
		g.addInstall(v, r)
	case p < 95:
		if r.commit > r.floor {
			v.Floor = r.floor + 1 + format.Index(g.r.IntN(int(r.commit-r.floor)))
		}
	case p < 96 && !g.noWild:
		*v = Save{Group: k.group, Replica: k.replica, Remove: true}
	default:
		if r.commit >= r.first() && r.base != 0 {
			v.Outcomes = []Outcome{outcomeFor(r.commit, r.entries[r.commit-r.base].Term)}
		}
	}
	g.m.apply(v)
	return v
}

func outcomeFor(i format.Index, term format.Term) Outcome {
	b := format.OutcomeBuilder{Term: term}
	b.Begin(i, 0)
	b.Add([]byte{0, byte(format.CodeMoved)})
	_, body := b.Record(1, 1)
	return Outcome{First: i, Last: i, Term: term, Bytes: bytes.Clone(body)}
}

func (g *generator) addEntries(v *Save, r *modelReplica, from format.Index) {
	if r.state.Term == 0 && v.State == nil {
		v.State = &HardState{Term: 1}
	}
	term := r.state.Term
	if v.State != nil {
		term = v.State.Term
	}
	n := 1 + g.r.IntN(g.many)
	if from <= r.floor {
		return
	}
	for i := range n {
		e := Entry{Index: from + format.Index(i), Term: term, Type: format.EntryEncoded}
		e.Data = encoded(g.r.IntN(64), g.r.IntN(g.data), g.r.Uint64())
		if g.r.IntN(3) == 0 {
			e.Key, e.ClientID = g.r.Uint64(), g.r.Uint64()
		}
		if g.r.IntN(6) == 0 {
			e.Type, e.Data = format.EntryApplication, nil
		}
		v.Entries = append(v.Entries, e)
	}
	if g.r.IntN(2) == 0 {
		v.Commit = max(r.commit, from+format.Index(g.r.IntN(n)))
	}
}

func (g *generator) snapshot(v *Save, i format.Index, term format.Term, dummy bool) *format.Snapshot {
	return &format.Snapshot{
		Group: v.Group, Replica: v.Replica, Index: i, Term: term, OnDisk: i, Dummy: dummy,
		Members: []format.Member{{Role: format.MemberVoter, Replica: v.Replica, Address: fmt.Sprintf("host-%d:1", i)}},
	}
}

func (g *generator) addDummy(v *Save, r *modelReplica) {
	if r.base == 0 || r.commit < r.base || r.snapshot != nil && r.commit <= r.snapshot.Index {
		return
	}
	v.Snapshot = g.snapshot(v, r.commit, r.entries[r.commit-r.base].Term, true)
}

func (g *generator) addInstall(v *Save, r *modelReplica) {
	at := max(r.commit, r.floor) + 1 + format.Index(g.r.IntN(20))
	v.State = &HardState{Term: r.state.Term + 1}
	v.Snapshot, v.Install, v.Commit = g.snapshot(v, at, r.state.Term+1, false), true, at
	if g.r.IntN(2) == 0 {
		g.addEntries(v, r, at+1)
	}
}
