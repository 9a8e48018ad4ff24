package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/batch"
	"queen/engine/enginetest"
	"queen/engine/enginetest/memnode"
	"queen/engine/format"
)

// recordWorld plays Kafka's clients and native ones against a node that loses its power in the middle of calls. A call
// that got no answer is repeated by who numbers its batches or ends, and left open by who does not.
type recordWorld struct {
	t       *testing.T
	target  enginetest.Target
	e       engine.Engine
	r       *rand.Rand
	clients []*recordClient
	// wrote is what was answered: value by partition and offset. fate is what became of a value.
	wrote map[string]map[format.Offset]string
	fate  map[string]string // "committed", "aborted", "open", "unknown"
	count map[string]int
	next  int
	died  int
	armed bool
}

// recordClient is a producer: plain without a name, transactional with one.
type recordClient struct {
	name string
	id   engine.ProducerIdentity
	seq  map[string]int32
	open []string // values of the open transaction
}

func (w *recordWorld) value() string { w.next++; return fmt.Sprint("v", w.next) }

// maybe arms the power for the next call, which over ends.
func (w *recordWorld) maybe() {
	if w.r.IntN(12) == 0 {
		w.armed = true
		w.target.Arm(1 + w.r.IntN(6))
	}
}

// over has the power go after a call that did not meet its end.
func (w *recordWorld) over() {
	if w.armed {
		w.reopen(true)
	}
}

func (w *recordWorld) reopen(crash bool) {
	w.armed = false
	w.e = w.target.Reopen(crash)
}

// again makes a call until it is answered; only the first one may die.
func (w *recordWorld) again(call func() error) error {
	w.maybe()
	err := call()
	for err != nil && w.dead(err) {
		err = call()
	}
	w.over()
	return err
}

// dead starts the node again when the call ended without an answer.
func (w *recordWorld) dead(err error) bool {
	switch code(err) {
	case "", engine.CodeClosed, engine.CodeTimeout, engine.CodeInternal, engine.CodeCorrupt:
	case engine.CodeStorageFull: // the disk never fills; without power no segment is made in advance, which a node may notice first
	default:
		return false
	}
	w.died++
	w.reopen(true)
	return true
}

func (w *recordWorld) note(partition string, base format.Offset, fate string, values ...string) {
	w.t.Helper()
	for i, v := range values {
		at := base + format.Offset(i)
		if was, ok := w.wrote[partition][at]; ok && was != v {
			w.t.Fatalf("%s is told to be at %d of %s, where %s is", v, at, partition, was)
		}
		w.wrote[partition][at], w.fate[v] = v, fate
	}
}

func (w *recordWorld) values() []string {
	out := []string{w.value()}
	for w.r.IntN(3) == 0 {
		out = append(out, w.value())
	}
	return out
}

// native pushes without a name: without an answer nobody knows.
func (w *recordWorld) native(partition string) {
	v := w.value()
	w.maybe()
	out, err := w.e.Do(context.Background(), someone, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "q", Partition: partition,
		Messages: []engine.Message{{Payload: []byte(`"` + v + `"`)}}}}})
	if err != nil && w.dead(err) {
		w.fate[v] = "unknown"
		return
	}
	require.NoError(w.t, err)
	require.Nil(w.t, out[0].Err)
	w.note(partition, out[0].Messages[0].Offset, "committed", v)
	w.over()
}

// produce sends a batch, numbered if the client has an identity.
func (w *recordWorld) produce(c *recordClient, partition string) {
	values := w.values()
	h := batch.Head(0)
	if c != nil {
		h.ProducerID, h.ProducerEpoch, h.BaseSequence = c.id.ID, c.id.Epoch, c.seq[partition]
		if c.name != "" {
			h.Attributes = 1 << 4
		}
	}
	b := recordsOf(w.t, h, values...)
	var out []engine.Produced
	send := func() (err error) {
		out, err = w.e.Records().Produce(context.Background(), someone, []engine.RecordBatch{{Queue: "q", Partition: partition, Batch: b, Implicit: true}})
		return err
	}
	if c == nil {
		w.maybe()
		if err := send(); err != nil {
			require.True(w.t, w.dead(err), "%v", err)
			for _, v := range values {
				w.fate[v] = "unknown"
			}
			return
		}
		require.Nil(w.t, out[0].Err)
		w.note(partition, out[0].Base, "committed", values...)
		w.over()
		return
	}
	require.NoError(w.t, w.again(send))
	require.Nil(w.t, out[0].Err)
	if out[0].Duplicate {
		w.count["repeat found"]++
	}
	c.seq[partition] += int32(len(values))
	if c.name == "" {
		w.note(partition, out[0].Base, "committed", values...)
		return
	}
	w.note(partition, out[0].Base, "open", values...)
	c.open = append(c.open, values...)
}

func (w *recordWorld) end(c *recordClient, commit bool) {
	if len(c.open) == 0 {
		return
	}
	require.NoError(w.t, w.again(func() error {
		id, err := w.e.Records().EndTxn(context.Background(), someone, engine.TxnEnd{Commit: commit, Bump: true,
			ProducerRef: engine.ProducerRef{TransactionalID: c.name, ID: c.id.ID, Epoch: c.id.Epoch}})
		if err == nil {
			c.id, c.seq = id, map[string]int32{}
		}
		return err
	}))
	w.ended(c, map[bool]string{true: "committed", false: "aborted"}[commit])
}

func (w *recordWorld) ended(c *recordClient, fate string) {
	for _, v := range c.open {
		w.fate[v] = fate
	}
	w.count[fate]++
	c.open = nil
}

// start gives the client a fresh identity, as one that was started anew.
func (w *recordWorld) start(c *recordClient) {
	require.NoError(w.t, w.again(func() error {
		p := engine.ProducerInit{ProducerRef: engine.ProducerRef{TransactionalID: c.name, ID: engine.NoProducer}}
		if c.name != "" {
			p.Timeout = 24 * time.Hour
		}
		id, err := w.e.Records().InitProducer(context.Background(), someone, p)
		if err == nil {
			c.id, c.seq = id, map[string]int32{}
		}
		return err
	}))
	if len(c.open) > 0 {
		w.ended(c, "aborted")
	}
}

func (w *recordWorld) step() {
	part := []string{"0", "1"}[w.r.IntN(2)]
	c := w.clients[w.r.IntN(len(w.clients))]
	switch n := w.r.IntN(100); {
	case n < 15:
		w.native(part)
	case n < 25:
		w.produce(nil, part)
	case n < 70:
		w.produce(c, part)
	case n < 84:
		w.end(c, w.r.IntN(2) == 0)
	case n < 87:
		w.start(c)
	case n < 94:
		w.target.Clock.Advance(time.Duration(w.r.IntN(3000)) * time.Millisecond)
		w.target.Settle(w.e)
	case n < 97:
		w.reopen(w.r.IntN(2) == 0)
	default:
		w.verify()
	}
}

// verify reads both partitions as every kind of client.
func (w *recordWorld) verify() {
	w.t.Helper()
	for partition, wrote := range w.wrote {
		all, committed, native := w.everything(partition, false), w.everything(partition, true), w.natively(partition)
		seen := map[string]bool{}
		for at, v := range all {
			if v == "" {
				continue // a control record
			}
			if want, ok := wrote[at]; ok && want != v || !ok && w.fate[v] != "unknown" || seen[v] {
				w.t.Fatalf("partition %s offset %d: %s (%s, seen %v), want %q", partition, at, v, w.fate[v], seen[v], want)
			}
			seen[v] = true
		}
		stable := format.Offset(len(all))
		for at := range format.Offset(len(all)) {
			if w.fate[all[at]] == "open" {
				stable = at
				break
			}
		}
		for at, v := range native {
			if v == "" || all[at] != v {
				w.t.Fatalf("partition %s offset %d: a native reader sees %q, where Kafka's see %q", partition, at, v, all[at])
			}
		}
		for at, v := range wrote {
			if all[at] != v {
				w.t.Fatalf("partition %s offset %d: %q, %s was acknowledged", partition, at, all[at], v)
			}
			visible := w.fate[v] == "committed" && at < stable
			if (committed[at] == v) != visible || (native[at] == v) != visible {
				w.t.Fatalf("partition %s offset %d: %s is %s, stable %d; read committed gives %q, a native reader %q", partition, at, v, w.fate[v],
					stable, committed[at], native[at])
			}
		}
	}
	w.count["verified"]++
}

// everything is what a Kafka client reads of a partition, by offset; "" is a control record. One that reads committed
// records drops what the answers say was aborted, as Kafka's clients do.
func (w *recordWorld) everything(partition string, committed bool) map[format.Offset]string {
	w.t.Helper()
	out, aborted := map[format.Offset]string{}, map[int64]bool{}
	for next := format.Offset(0); ; {
		got, err := w.e.Records().Fetch(context.Background(), someone, []engine.FetchAt{{Queue: "q", Partition: partition, Offset: next, Committed: committed}}, 4000)
		require.NoError(w.t, err)
		if f := &got[0]; f.Err != nil {
			require.Equal(w.t, engine.CodeUnknownPartition, f.Err.Code)
			return out
		}
		if len(got[0].Frames) == 0 {
			return out
		}
		pending := got[0].Aborted
		for _, f := range got[0].Frames {
			for _, m := range f.Messages {
				out[m.Offset] = string(m.Payload[1 : len(m.Payload)-1])
				next = m.Offset + 1
			}
			if f.Batch == nil {
				continue
			}
			h, err := batch.ParseHeader(f.Batch)
			require.NoError(w.t, err)
			for i := range pending {
				if pending[i].First <= f.Base {
					aborted[pending[i].Producer] = true
				}
			}
			next = f.Base + format.Offset(h.LastOffsetDelta) + 1
			if h.Control() {
				m, err := batch.ParseControl(f.Batch)
				require.NoError(w.t, err)
				if out[f.Base] = ""; !m.Commit {
					delete(aborted, h.ProducerID)
					for i := range pending {
						if pending[i].Producer == h.ProducerID && pending[i].First < f.Base {
							pending[i].Producer = -1
						}
					}
				}
				continue
			}
			if committed && h.Transactional() && aborted[h.ProducerID] {
				continue
			}
			require.NoError(w.t, batch.Records(f.Batch, batch.DefaultLimits, func(rec *batch.Record) bool {
				out[f.Base+format.Offset(rec.OffsetDelta)] = string(rec.Value)
				return true
			}))
		}
	}
}

func (w *recordWorld) natively(partition string) map[format.Offset]string {
	w.t.Helper()
	out := map[format.Offset]string{}
	for next := format.Offset(0); ; {
		res, err := w.e.Read(context.Background(), someone, engine.ReadRequest{At: []engine.Position{{Queue: "q", Partition: partition, Offset: next,
			MaxBytes: 500}}})
		require.NoError(w.t, err)
		p := &res.Parts[0]
		require.Nil(w.t, p.Err)
		if len(p.Records) == 0 {
			return out
		}
		for _, rec := range p.Records {
			v := string(rec.Payload)
			if env, ok := batch.ParseEnvelope(rec.Payload); ok {
				v = string(env.Value)
			} else {
				v = v[1 : len(v)-1]
			}
			out[rec.Offset], next = v, rec.Offset+1
		}
	}
}

// Goal: what was acknowledged is there, once, with the fate of its transaction, whenever the power goes and whatever a
// client repeats; nobody sees a part of a transaction. Method: see recordWorld.
func TestRandomRecords(t *testing.T) {
	count := map[string]int{}
	for seed := range uint64(6) {
		w := &recordWorld{t: t, r: rand.New(rand.NewPCG(seed, 13)), count: count, fate: map[string]string{},
			wrote:  map[string]map[format.Offset]string{"0": {}, "1": {}},
			target: memnode.Open(memnode.Options{Seed: 9000 + 1000*seed, Config: eager})}
		w.e = w.target.Engine
		_, err := w.e.Catalog().Configure(context.Background(), someone, engine.ConfigureRequest{Queue: "q"})
		require.NoError(t, err)
		for _, name := range []string{"", "a", "b"} {
			c := &recordClient{name: name}
			w.start(c)
			w.clients = append(w.clients, c)
		}
		for range 350 {
			w.step()
		}
		w.verify()
		w.e = w.target.Reopen(true)
		w.verify()
		w.target.Close()
		count["died"] += w.died
	}
	t.Log(count)
	for _, k := range []string{"died", "repeat found", "committed", "aborted", "verified"} {
		require.NotZero(t, count[k], k)
	}
}
