package engine_test

import (
	"fmt"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/batch"
	"queen/engine/format"
	"queen/engine/vfs"
)

// naive is a record as it was produced, in a list that forgets nothing.
type naive struct {
	key, value string
	null, bare bool // no value; no key
	ms         int64
	w          format.Wall
	end        format.Offset // of its batch
	native     bool
	control    bool
	txn        int  // number of its transaction, 0 for none
	aborted    bool // known when that ended
}

// tables is a node with a queue that compacts, between others that fill the log, and what was written to it.
type tables struct {
	*mixed
	r     *recordRig
	rule  format.QueueOptions
	log   map[string][]naive
	txs   []*producer
	open  []int // number of the open transaction of each producer; 0 none
	txn   int
	ended map[int]bool
	keys  int
}

const tableParts = 2

func newTables(t *testing.T, seed uint64, rule format.QueueOptions) *tables {
	b := &tables{mixed: newMixed(t, seed), rule: rule, log: map[string][]naive{}, ended: map[int]bool{}, keys: 25}
	b.config = func(c *engine.Config) {
		engine.Unpaced(c)
		c.CompactKeys = 12
	}
	b.mixed.open()
	b.declare()
	b.rule.CompactKeys = true
	b.rule.Set |= format.OptCompactKeys
	b.configure()
	b.r = &recordRig{rig: b.rig, timeout: time.Hour}
	b.txs = []*producer{b.r.producer("one"), b.r.producer("two")}
	b.open = make([]int, len(b.txs))
	return b
}

func (b *tables) configure() {
	_, err := b.node.Catalog().Configure(b.t.Context(), someone, engine.ConfigureRequest{Queue: "table", Patch: b.rule})
	require.NoError(b.t, err)
}

// fill writes more than a segment of what goes after some seconds, over the time.
func (b *tables) fill(over time.Duration) {
	b.t.Helper()
	const steps = 14
	for range steps {
		_, err := b.node.Do(b.t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "fire", Partition: "p",
			Messages: []engine.Message{{Payload: b.noise(80_000)}}}}})
		require.NoError(b.t, err)
		b.tick(over / steps)
	}
}

func (b *tables) now() format.Wall { return format.Wall(b.clock.Now()) }

// produce writes a batch of random records.
func (b *tables) produce(part string, who int) {
	b.t.Helper()
	h := batch.Head(0)
	h.Attributes = int16(b.rng.IntN(5))
	ref := engine.RecordBatch{Queue: "table", Partition: part}
	if who >= 0 {
		p := b.txs[who]
		h.ProducerID, h.ProducerEpoch, h.BaseSequence = p.id.ID, p.id.Epoch, p.next[part]
		h.Attributes |= 1 << 4
		ref.Implicit, ref.TransactionalID = true, p.name
		if b.open[who] == 0 {
			b.txn++
			b.open[who] = b.txn
		}
	}
	var all []naive
	w := batch.NewBuilder(nil, h)
	for i := range 1 + b.rng.IntN(6) {
		n := naive{key: fmt.Sprint("key-", b.rng.IntN(b.keys)), value: fmt.Sprintf("value %d %x", b.rng.IntN(1000), b.noise(b.rng.IntN(60))),
			ms: int64(b.clock.Now()/1000) - int64(b.rng.IntN(5000)), null: b.rng.IntN(5) == 0, bare: b.rng.IntN(25) == 0}
		r := batch.Record{OffsetDelta: int32(i), Timestamp: n.ms, Key: []byte(n.key), Value: []byte(n.value)}
		if n.null {
			r.Value, n.value = nil, ""
		}
		if n.bare {
			r.Key, n.key = nil, ""
		}
		if who >= 0 {
			n.txn = b.open[who]
		}
		all = append(all, n)
		w.Add(&r)
	}
	var err error
	ref.Batch, err = w.Finish(0)
	require.NoError(b.t, err)
	out, err := b.node.Records().Produce(b.t.Context(), someone, []engine.RecordBatch{ref})
	require.NoError(b.t, err)
	require.Nil(b.t, out[0].Err)
	if who >= 0 {
		b.txs[who].next[part] += int32(len(all))
	}
	b.append(part, out[0].Base, all)
}

func (b *tables) append(part string, base format.Offset, all []naive) {
	b.t.Helper()
	require.Equal(b.t, len(b.log[part]), int(base))
	for i := range all {
		all[i].w, all[i].end = b.now(), base+format.Offset(len(all))
	}
	b.log[part] = append(b.log[part], all...)
}

// end ends the open transaction of a producer.
func (b *tables) end(who int) {
	if b.open[who] == 0 {
		return
	}
	commit := b.rng.IntN(2) == 0
	require.NoError(b.t, b.txs[who].end(commit, false))
	for _, part := range b.parts() {
		in := false
		for i := range b.log[part] {
			if n := &b.log[part][i]; n.txn == b.open[who] {
				in, n.aborted = true, !commit
			}
		}
		if in {
			b.append(part, format.Offset(len(b.log[part])), []naive{{control: true, txn: b.open[who], aborted: !commit}})
		}
	}
	b.ended[b.open[who]], b.open[who] = true, 0
}

func (b *tables) parts() (names []string) {
	for i := range tableParts {
		names = append(names, fmt.Sprint(i))
	}
	return names
}

// write writes something to some partition.
func (b *tables) write() {
	b.t.Helper()
	part := b.parts()[b.rng.IntN(tableParts)]
	switch b.rng.IntN(12) {
	case 0:
		_, err := b.node.Do(b.t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "table", Partition: part,
			Messages: []engine.Message{{Payload: []byte("native")}}}}})
		require.NoError(b.t, err)
		b.append(part, format.Offset(len(b.log[part])), []naive{{native: true, value: "native"}})
	case 1, 2:
		b.produce(part, b.rng.IntN(len(b.txs)))
	case 3:
		b.end(b.rng.IntN(len(b.txs)))
	default:
		b.produce(part, -1)
	}
}

// stable is where the first open transaction begins.
func (b *tables) stable(part string) format.Offset {
	for i, n := range b.log[part] {
		if n.txn > 0 && !b.ended[n.txn] {
			return format.Offset(i)
		}
	}
	return format.Offset(len(b.log[part]))
}

// seen is what is read back of a partition: by offset, as written.
type seen struct {
	all, committed map[format.Offset]naive
	bytes          int
}

// fetchAll reads a partition as a client does, from start to end.
func (b *tables) fetchAll(part string, committed bool) (got map[format.Offset]naive, bytes int) {
	b.t.Helper()
	got = map[format.Offset]naive{}
	for next := format.Offset(0); ; {
		out, err := b.node.Records().Fetch(b.t.Context(), someone, []engine.FetchAt{{Queue: "table", Partition: part, Offset: next,
			Committed: committed, MaxBytes: 1 + b.rng.IntN(3000)}}, 1<<20)
		require.NoError(b.t, err)
		f := &out[0]
		if f.Err != nil {
			b.t.Fatalf("partition %s offset %d: %v: %v", part, next, f.Err, f.Err.Cause)
		}
		require.Equal(b.t, []format.Offset{0, format.Offset(len(b.log[part])), b.stable(part)}, []format.Offset{f.Start, f.End, f.Stable})
		to := f.End
		if committed {
			to = f.Stable
		}
		c := client{committed: committed, pending: f.Aborted, aborting: map[int64]bool{}, got: got}
		if len(f.Frames) == 0 {
			require.GreaterOrEqual(b.t, next, to, "the client is stuck")
			return got, bytes
		}
		for i := range f.Frames {
			at := b.frame(&f.Frames[i], next, &c)
			require.Greater(b.t, at, next)
			next, bytes = at, bytes+len(f.Frames[i].Batch)
		}
	}
}

// client is what a client keeps while it walks over one answer.
type client struct {
	committed bool
	pending   []engine.Aborted
	aborting  map[int64]bool
	got       map[format.Offset]naive
}

// frame takes the records of one frame; it returns the offset behind it.
func (b *tables) frame(f *engine.Frame, next format.Offset, c *client) format.Offset {
	for _, m := range f.Messages {
		c.got[m.Offset] = naive{native: true, value: string(m.Payload)}
		next = m.Offset + 1
	}
	if f.Batch == nil {
		return next
	}
	h, err := batch.ParseHeader(f.Batch)
	require.NoError(b.t, err)
	end := format.Offset(h.BaseOffset) + format.Offset(h.LastOffsetDelta) + 1
	c.pending = slices.DeleteFunc(c.pending, func(a engine.Aborted) bool {
		begun := a.First < end
		if begun {
			c.aborting[a.Producer] = true
		}
		return begun
	})
	if h.Control() {
		delete(c.aborting, h.ProducerID)
		c.got[f.Base] = naive{control: true}
		return end
	}
	most := batch.NoTimestamp
	require.NoError(b.t, batch.Records(f.Batch, batch.DefaultLimits, func(r *batch.Record) bool {
		n := naive{key: string(r.Key), value: string(r.Value), null: r.Value == nil, bare: r.Key == nil, ms: r.Timestamp}
		most = max(most, r.Timestamp)
		if at := f.Base + format.Offset(r.OffsetDelta); at >= next && !(c.committed && c.aborting[h.ProducerID]) {
			c.got[at] = n
		}
		return true
	}))
	require.Equal(b.t, most, h.MaxTimestamp)
	return end
}

// content is what a reader sees of a record.
func content(n naive) naive {
	return naive{key: n.key, value: n.value, null: n.null, bare: n.bare, ms: n.ms, native: n.native, control: n.control}
}

// check holds a partition against the rules of compaction. all says that every record below bound had its turn.
func (b *tables) check(what, part string, bound format.Offset) seen {
	b.t.Helper()
	log, stable := b.log[part], b.stable(part)
	var s seen
	s.all, s.bytes = b.fetchAll(part, false)
	s.committed, _ = b.fetchAll(part, true)
	lag := b.now() - format.Wall(b.rule.MinCompactionLagMs)*1000
	keep := b.rule.Compaction().Tombstones
	newest := map[string]int{}
	for i, n := range log {
		if decided := format.Offset(i) < stable && !n.aborted; decided && !n.control && !n.native && !n.bare {
			newest[n.key] = i
		}
	}
	for i, n := range log {
		at := format.Offset(i)
		where := fmt.Sprintf("%s: partition %s offset %d of %d: %+v", what, part, i, len(log), n)
		got, there := s.all[at]
		if there {
			require.Equal(b.t, content(n), got, where)
			if bound > at {
				old := !n.native && !n.control && !n.bare && newest[n.key] > i && format.Offset(newest[n.key]) < bound
				require.False(b.t, old || n.aborted && !n.control, "%s: had its turn and stays", where)
			}
			continue
		}
		require.False(b.t, n.native || n.control || at >= stable || n.w > lag, where)
		if n.aborted {
			continue
		}
		require.False(b.t, n.bare, where)
		later := slices.IndexFunc(log[i+1:], func(o naive) bool { return o.key == n.key && !o.bare && !o.aborted && !o.native && !o.control })
		old := later >= 0 && log[i+1+later].w <= lag && format.Offset(i+1+later) < stable
		require.True(b.t, old || n.null && n.w+keep <= b.now(), where)
		if n.null { // what it deletes is gone before it
			for k := range log[:i] {
				if o := log[k]; o.key == n.key && !o.bare && !o.aborted && !o.native && !o.control {
					_, back := s.all[format.Offset(k)]
					require.False(b.t, back, "%s: %d is there again", where, k)
				}
			}
		}
	}
	for at, n := range s.all {
		wanted := at < stable && !log[at].aborted || at < stable && log[at].control
		got, there := s.committed[at]
		require.Equal(b.t, wanted, there, "%s: partition %s offset %d: %+v", what, part, at, log[at])
		if there {
			require.Equal(b.t, n, got)
		}
	}
	b.checkNative(what, part, &s)
	b.checkTimes(what, part, &s)
	return s
}

// checkNative reads as native clients do: what is committed, by offset, id and time.
func (b *tables) checkNative(what, part string, s *seen) {
	b.t.Helper()
	native, ok := b.shootPartition("table", part)
	require.True(b.t, ok)
	var want, got []format.Offset
	for at, n := range s.committed {
		if !n.control {
			want = append(want, at)
		}
	}
	slices.Sort(want)
	for i := range native.records {
		got = append(got, native.records[i].Offset)
	}
	require.Equal(b.t, want, got, "%s: partition %s", what, part)
}

// checkTimes finds offsets by record timestamps.
func (b *tables) checkTimes(what, part string, s *seen) {
	b.t.Helper()
	var order []format.Offset
	for at, n := range s.all {
		if !n.control {
			order = append(order, at)
		}
	}
	slices.Sort(order)
	ms := func(at format.Offset) int64 {
		if n := b.log[part][at]; !n.native {
			return n.ms
		}
		return int64(b.log[part][at].w / 1000)
	}
	for range 4 {
		t := int64(b.clock.Now()/1000) - int64(b.rng.IntN(60_000))
		out, err := b.node.Records().RecordOffsets(b.t.Context(), someone, []engine.RecordOffsetQuery{
			{Queue: "table", Partition: part, Kind: engine.RecordAtTime, Time: t}, {Queue: "table", Partition: part, Kind: engine.RecordMaxTime}})
		require.NoError(b.t, err)
		i := slices.IndexFunc(order, func(at format.Offset) bool { return ms(at) >= t })
		require.Equal(b.t, i >= 0, out[0].Found, "%s: partition %s: since %d", what, part, t)
		if i >= 0 {
			require.Equal(b.t, order[i], out[0].Offset, "%s: partition %s: since %d", what, part, t)
		}
		most := slices.MaxFunc(order, func(x, y format.Offset) int { return int(ms(x) - ms(y)) })
		require.Equal(b.t, []int64{int64(most), ms(most)}, []int64{int64(out[1].Offset), out[1].Timestamp}, "%s: partition %s", what, part)
	}
}

// remake deletes derived files: what they said is made again, and nothing that went comes back.
func (b *tables) remake(before map[string]seen) {
	b.t.Helper()
	disk := b.fs.Crash(vfs.KeepAll())
	for _, kinds := range [][]string{{".pidx"}, {".run"}, {".pidx", ".run", ".hsc"}} {
		o := *b
		o.mixed = &mixed{rig: b.on(disk.Crash(vfs.KeepAll())), rng: b.rng}
		o.mixed.config = b.config
		for _, kind := range kinds {
			for _, name := range o.files(func(name string) bool { return path.Ext(name) == kind }) {
				require.NoError(b.t, o.fs.Remove("data/"+name))
			}
		}
		o.mixed.open()
		o.node.SettleFiles() // no pass of the new node comes between two readers
		for part, was := range before {
			s := o.check(fmt.Sprint("without ", kinds), part, 0)
			for at, n := range s.all {
				require.Equal(b.t, was.all[at], n, "without %v: partition %s: offset %d came back", kinds, part, at)
			}
			for at, n := range was.all {
				_, there := s.all[at]
				// Compaction goes on in the new node: what has no value may have had its time.
				require.True(b.t, there || n.null, "without %v: partition %s: offset %d is gone", kinds, part, at)
			}
		}
		o.close()
	}
}
