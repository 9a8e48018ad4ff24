package machine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"queen/engine/format"
)

// checkKeys checks what is derived from the heads of keyed rows, and their sums.
func checkKeys(m *Machine) error {
	var sums [families]keyedSum
	timers, dues := 0, 0
	for h := m.keys.Next(0); h != 0; h = m.keys.Next(h) {
		k := m.keys.Get(h)
		if m.keyByHash(k.hash) != h {
			return fmt.Errorf("key %d is not found by its hash", h)
		}
		sums[k.family()].rows++
		sums[k.family()].sum += k.sum
		due, timed := m.keyDue.At(h, 0)
		isTimer := k.family() == FamilyTimer
		switch {
		case (k.key != 0) != (k.due != 0) || k.more != 0 && k.key == 0 || k.note != 0 && !isTimer:
			return fmt.Errorf("key %d: %+v", h, *k)
		case timed != (k.due != 0 && !isTimer) || timed && due != int64(k.due):
			return fmt.Errorf("key %d: expiry %v at %d, want %d", h, timed, due, k.due)
		case isTimer && m.timerDue.Has(timerKey{k.due, h}) == (k.flags&keyPaused != 0):
			return fmt.Errorf("timer %d, flags %#x: among the due ones, or not", h, k.flags)
		case k.version > m.keyVersion:
			return fmt.Errorf("key %d has version %d above %d", h, k.version, m.keyVersion)
		}
		if isTimer && k.flags&keyPaused == 0 {
			timers++
		} else if timed {
			dues++
		}
	}
	for h := m.dead.Next(0); h != 0; h = m.dead.Next(h) {
		sums[FamilyDeadLetter].rows++
		sums[FamilyDeadLetter].sum += m.dead.Get(h).sum
	}
	if sums != m.keySums || m.keyIndex.Len() != m.keys.Len() || timers != m.timerDue.Len() || dues != m.keyDue.Len() {
		return fmt.Errorf("sums %v, want %v; %d indexed of %d; %d timers of %d; %d due of %d", m.keySums, sums, m.keyIndex.Len(),
			m.keys.Len(), m.timerDue.Len(), timers, m.keyDue.Len(), dues)
	}
	return nil
}

// checkSink holds the rows that were handed out against the sums of the heads.
func checkSink(m *Machine, sink map[string]string) error {
	var sums [families]keyedSum
	for k, v := range sink {
		sums[k[0]].rows++
		sums[k[0]].sum += xxh3.Hash128([]byte(k + v)).Lo
	}
	for f := byte(1); f < families; f++ {
		if rows, sum := m.KeyedSum(f); rows != sums[f].rows || sum != sums[f].sum {
			return fmt.Errorf("family %d: %d rows and sum %#x, handed out were %d with %#x", f, rows, sum, sums[f].rows, sums[f].sum)
		}
	}
	return nil
}

// badPart is a part that refuses a transaction, and with which code.
type badPart struct {
	name string
	code format.Code
	add  func(r *rig)
}

func line(cmd string, words ...string) func(r *rig) {
	return func(r *rig) {
		plain, by := opts(words)
		switch {
		case r.addKeyed(plain, by, cmd):
		case cmd == "ack":
			r.addAck(plain, by)
		}
	}
}

func pushing(queue string, ids ...string) func(r *rig) {
	return func(r *rig) { r.addPush(queue, "p", ids, func(a *format.Append) { a.ClearTo = r.m.EvidenceFrom() }) }
}

// Goal: a transaction with one part that refuses leaves no trace, whichever part it is and wherever it
// stands. Method: a state with something of everything; every bad part at every place among good parts of
// every kind; the image of the state, row by row, and the digest of the next mark have to be those of a twin
// that saw an empty entry instead.
func TestTxnIsAllOrNothing(t *testing.T) {
	bad := []badPart{
		{"ack of a dead lease", format.CodeLeaseInvalid, line("ack", "#1", "g=g", "OTHER", "0:ok")},
		{"ack out of reach", format.CodeUnresolvable, line("ack", "#1", "g=g", "L", "9:ok")},
		{"ack of what is settled", format.CodeCommitted, line("ack", "#2", "g=g", "unfenced", "0:failed")},
		{"ack of nothing", format.CodeUnknownPartition, line("ack", "#99", "g=g", "unfenced", "0:ok")},
		{"ack of another group", format.CodeNotLeased, line("ack", "#1", "g=h", "unfenced", "0:ok")},
		{"second ack of a cursor", format.CodeMalformed, line("ack", "#3", "g=g", "L", "0:ok")},
		{"repeated id", format.CodeDuplicate, pushing("q", "new", "c")},
		{"late evidence", format.CodeStaleEvidence, func(r *rig) { r.addPush("q", "p", []string{"new"}, nil) }},
		{"unsealed", format.CodeEncryption, pushing("secret", "x")},
		{"full", format.CodeLimit, pushing("small", "x", "y")},
		{"long name", format.CodeLimit, pushing(string(make([]byte, 420)), "x")},
		{"no queue", format.CodeUnknownQueue, line("position", "none/p", "g", "1", "create=all")},
		{"no partition", format.CodeUnknownPartition, line("position", "q/none", "g", "1")},
		{"no group", format.CodeUnknownGroup, line("position", "q/p", "none", "1")},
		{"exists", format.CodePrecondition, line("kv", "put", "n/a", "1", "expect=0", "required")},
		{"version", format.CodePrecondition, line("kv", "check", "n/a", "expect=77", "required")},
		{"absent", format.CodePrecondition, line("kv", "delete", "n/none", "required")},
		{"bound", format.CodePrecondition, line("kv", "incr", "n/a", "5", "max=1", "required")},
		{"type", format.CodePrecondition, line("kv", "incr", "n/text", "5", "required")},
		{"large value", format.CodeLimit, line("kv", "put", "n/a", string(make([]byte, format.MaxKVValue+1)))},
		{"long key", format.CodeLimit, line("kv", "put", "n/"+string(longName(format.MaxKVKey+1)), "1")},
		{"long timer", format.CodeLimit, line("timer", "schedule", "q/"+string(longName(format.MaxTimerKey+1)), "due=1s")},
	}
	good := []func(r *rig){
		line("timer", "schedule", "q/t", "due=10s", "tx=t"), line("timer", "cancel", "q/pending"),
		line("kv", "put", "n/b", "2", "keep=5s"), line("kv", "incr", "n/a", "1"), line("kv", "delete", "n/gone"),
		line("position", "q/p", "h", "1", "create=all", "note=x"), line("position", "q/made", "h", "0", "create=new"),
		pushing("q", "fresh", "fresh"), pushing("born", "x"), line("ack", "#3", "g=g", "L", "0:ok", "1:dlq:why"),
	}
	for _, b := range bad {
		for place := range len(good) + 1 {
			r, twin := txnRig(t), txnRig(t)
			r.buf.AddTxn(&format.Txn{Parts: uint32(len(good) + 1)})
			for i := range len(good) + 1 {
				switch {
				case i == place:
					b.add(r)
				case i < place:
					good[i](r)
				default:
					good[i-1](r)
				}
			}
			twin.buf.AddTick()
			out := r.apply()
			twin.apply()
			require.Equal(t, b.code, out.Items[0].Code, "%s at %d", b.name, place)
			failed := int(out.Txns[0].Failed)
			if b.name != "second ack of a cursor" {
				require.Equal(t, place, failed, "%s", b.name)
			}
			for i, it := range out.Items[1:] {
				if i != failed {
					require.Equal(t, format.CodeRolledBack, it.Code)
				}
			}
			require.Equal(t, twin.keyed.rows, r.keyed.rows, "%s at %d", b.name, place)
			require.Equal(t, imageOf(t, twin), imageOf(t, r), "%s at %d", b.name, place)
			require.Equal(t, twin.m.Digest(), r.m.Digest(), "%s at %d", b.name, place)
		}
	}
	// All of it is good without the bad part.
	r := txnRig(t)
	r.buf.AddTxn(&format.Txn{Parts: uint32(len(good))})
	for _, add := range good {
		add(r)
	}
	require.Equal(t, format.CodeOK, r.apply().Items[0].Code)
}

func longName(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

// txnRig is a state with messages, a lease L on #1, a settled partition #2, another one of the lease #3, keys, a timer and many marks.
func txnRig(t *testing.T) *rig {
	r := newRig(t)
	for range chunksKept + 2 {
		r.W++
		r.buf.AddMark(&format.Mark{Number: r.m.marks + 1})
		r.apply()
		if r.m.marks == 1 {
			r.addPush("q", "p", []string{"a", "b"}, nil)
			r.addPush("q", "done", []string{""}, nil)
			r.addPush("q", "third", []string{"", ""}, nil)
			r.apply()
		}
	}
	pushing("q", "c")(r)
	r.addConfigure([]string{"small"}, map[string]string{"maxSize": "1"})
	pushing("small", "first")(r)
	r.buf.AddConfigure(&format.Configure{Tenant: format.DefaultTenant, Queue: []byte("secret"),
		Patch: format.QueueOptions{Set: format.OptEncryptionEnabled, EncryptionEnabled: true}})
	r.addPop([]string{"q"}, map[string]string{"g": "g", "as": "L", "parts": "3", "lease": "1h"})
	line("ack", "#2", "g=g", "unfenced", "0:ok")(r)
	line("kv", "put", "n/a", "1")(r)
	line("kv", "put", "n/text", `"t"`, "keep=1h")(r)
	line("kv", "put", "n/gone", "1")(r)
	line("timer", "schedule", "q/pending", "due=1h")(r)
	for _, it := range r.apply().Items {
		require.Equal(t, format.CodeOK, it.Code)
	}
	return r
}

// imageOf marks and freezes a state and returns every row of it.
func imageOf(t *testing.T, r *rig) []imageRow {
	r.W++
	r.buf.AddMark(&format.Mark{Number: r.m.marks + 1})
	r.apply()
	im := newImages(t)
	im.take(r.m, true)
	return im.rows
}

// Goal: a head costs what the design counts with: 64 bytes a key, and its key's bytes where it comes due.
// Method: memory of slab, names and index for 200,000 keys, with and without expiry.
func TestKeyMemory(t *testing.T) {
	keys := 200_000
	if testing.Short() {
		keys = 100_000
	}
	for _, c := range []struct {
		keep  int64
		limit float64
	}{{0, 64 + 14}, {1 << 40, 64 + 14 + 64 + 8 + 8 + 22}} { // index 13; key of 44 bytes, its head and cell; heap 16 and place 4
		r := newRig(t)
		r.check = false
		before := r.m.Counters().Bytes
		for i := range keys {
			r.buf.AddKV(&format.KV{
				Tenant: format.DefaultTenant, Op: format.KVPut, Namespace: []byte("orders"), Key: fmt.Appendf(nil, "customer-%011d", i),
				Value: []byte("1"), Number: format.Number{Kind: format.IntNumber, Int: 1}, Keep: c.keep,
			})
			if r.buf.Count == 10_000 {
				r.apply()
			}
		}
		got := float64(r.m.Counters().Bytes-before) / float64(keys)
		t.Logf("keep %v: %.1f bytes a key", c.keep != 0, got)
		require.Less(t, got, c.limit)
	}
}

// Goal: a version is never used twice, also when its key was deleted or expired and the state reloaded.
func TestVersionsNeverRepeat(t *testing.T) {
	r := newRig(t)
	seen := map[uint64]bool{}
	put := func() {
		line("kv", "put", "n/a", "1", "keep=1s")(r)
		v := r.apply().KVs[0].Version
		require.False(t, seen[v], v)
		seen[v] = true
	}
	put()
	line("kv", "delete", "n/a")(r)
	r.apply()
	put()
	r.advance(2e9)
	r.buf.AddTick()
	r.apply()
	images := newImages(t)
	r.buf.AddMark(&format.Mark{Number: r.m.marks + 1})
	r.apply()
	images.take(r.m, true)
	r.m = images.load(r.m)
	r.m.keyed = r.keyed
	put()
}

// Goal: sums that do not fit the heads are refused at open, by name.
func TestDamagedSumsAreRefused(t *testing.T) {
	r := newRig(t)
	line("kv", "put", "n/a", "1")(r)
	r.apply()
	r.buf.AddMark(&format.Mark{Number: 1})
	r.apply()
	im := newImages(t)
	im.take(r.m, true)
	n := New(Options{Group: 1})
	for _, row := range im.rows {
		if row.s == SectionKeys {
			b := []byte(row.row)
			b[32]++ // sum
			row.row = string(b)
		}
		require.NoError(t, n.Load(row.s, row.key, []byte(row.row)))
	}
	require.ErrorContains(t, n.Finish(), "keyed rows")
}

func BenchmarkKV(b *testing.B) {
	for _, c := range []struct {
		name string
		keep int64
	}{{"forever", 0}, {"expiring", 1 << 40}} {
		b.Run(c.name, func(b *testing.B) {
			r := newRig(b)
			r.check = false
			r.m.keyed = noKeyed{}
			for i := range 1000 {
				r.buf.AddKV(&format.KV{Op: format.KVIncr, Namespace: []byte("n"), Key: fmt.Appendf(nil, "key-%d", i), Keep: c.keep,
					Number: format.Number{Kind: format.IntNumber, Int: 1}})
			}
			benchEntry(b, r, 1000)
		})
	}
}

func BenchmarkTxn(b *testing.B) {
	r := newRig(b)
	r.check = false
	r.m.keyed = noKeyed{}
	for i := range 250 {
		r.buf.AddTxn(&format.Txn{Parts: 3})
		for k := range 2 {
			r.buf.AddKV(&format.KV{Op: format.KVPut, Namespace: []byte("n"), Key: fmt.Appendf(nil, "key-%d-%d", i, k), Value: []byte("1")})
		}
		r.addPush("q", fmt.Sprint("p", i), []string{""}, nil)
	}
	benchEntry(b, r, 250)
}

// benchEntry applies what is in the buffer again and again, under rising indexes.
func benchEntry(b *testing.B, r *rig, commands int) {
	r.fuse++
	r.builder.Begin(format.EntryHeader{Epoch: r.epoch, T: r.T, W: r.W, Fuse: 1 << 40})
	r.builder.Add(&r.buf)
	data := r.builder.Finish(nil)
	b.ReportAllocs()
	for b.Loop() {
		e, err := format.ParseEntry(data)
		if err != nil {
			b.Fatal(err)
		}
		r.index++
		r.m.fuse = 0
		if err := r.m.Apply(r.index, &e, &r.out); err != nil || r.out.Items[0].Code != format.CodeOK {
			b.Fatal(err, r.out.Items[0].Code)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(commands), "ns/command")
}
