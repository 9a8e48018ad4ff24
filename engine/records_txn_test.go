package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/batch"
	"queen/engine/format"
)

// producer is a client with an identity: it numbers its batches.
type producer struct {
	r        *recordRig
	name     string // transactional id, "" for none
	id       engine.ProducerIdentity
	next     map[string]int32
	implicit bool
}

func (r *recordRig) producer(name string) *producer {
	r.t.Helper()
	p := &producer{r: r, name: name}
	require.NoError(r.t, p.init(engine.NoProducer, 0))
	return p
}

func (p *producer) init(id int64, epoch int16) error {
	var timeout time.Duration
	if p.name != "" {
		timeout = max(p.r.timeout, time.Minute)
	}
	got, err := p.r.node.Records().InitProducer(context.Background(), someone, engine.ProducerInit{
		ProducerRef: engine.ProducerRef{TransactionalID: p.name, ID: id, Epoch: epoch}, Timeout: timeout})
	if err == nil {
		p.id, p.next = got, map[string]int32{}
	}
	return err
}

func (p *producer) ref() engine.ProducerRef {
	return engine.ProducerRef{TransactionalID: p.name, ID: p.id.ID, Epoch: p.id.Epoch}
}

// batch is the producer's batch with a given first sequence.
func (p *producer) batch(seq int32, values ...string) []byte {
	h := batch.Head(0)
	h.ProducerID, h.ProducerEpoch, h.BaseSequence = p.id.ID, p.id.Epoch, seq
	if p.name != "" {
		h.Attributes = 1 << 4
	}
	return recordsOf(p.r.t, h, values...)
}

// send produces the next batch.
func (p *producer) send(partition string, values ...string) engine.Produced {
	p.r.t.Helper()
	seq := p.next[partition]
	out := p.sendBatch(partition, p.batch(seq, values...))
	if out.Err == nil {
		p.next[partition] = seq + int32(len(values))
	}
	return out
}

func (p *producer) sendBatch(partition string, b []byte) engine.Produced {
	p.r.t.Helper()
	out, err := p.r.node.Records().Produce(context.Background(), someone, []engine.RecordBatch{{Queue: "q", Partition: partition, Batch: b,
		TransactionalID: p.name, Implicit: p.implicit}})
	require.NoError(p.r.t, err)
	return out[0]
}

func (p *producer) add(partitions ...string) error {
	var refs []engine.PartitionRef
	for _, name := range partitions {
		refs = append(refs, engine.PartitionRef{Queue: "q", Partition: name})
	}
	return p.r.node.Records().AddToTxn(context.Background(), someone, p.ref(), refs)
}

func (p *producer) end(commit, bump bool) error {
	got, err := p.r.node.Records().EndTxn(context.Background(), someone, engine.TxnEnd{ProducerRef: p.ref(), Commit: commit, Bump: bump})
	if err == nil {
		if got != p.id {
			p.next = map[string]int32{}
		}
		p.id = got
	}
	return err
}

func code(err error) engine.ErrorCode {
	var e *engine.Error
	if errors.As(err, &e) && e != nil {
		return e.Code
	}
	return ""
}

func producedCode(p engine.Produced) engine.ErrorCode {
	if p.Err == nil {
		return ""
	}
	return p.Err.Code
}

// Goal: a batch that is sent again is stored once, whatever became of the node between: within the last five it gets
// its first answer, before that its refusal, and after it only what follows is taken (spec 3.3).
func TestIdempotentProducer(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint("crash=", crash), func(t *testing.T) {
			r := newRecordRig(t)
			again := func() {
				t.Helper()
				if crash {
					r.crash()
					return
				}
				r.close()
				r.open()
			}
			p := r.producer("")
			other := r.producer("")
			require.NotEqual(t, p.id.ID, other.id.ID)
			require.Equal(t, engine.CodeOutOfSequence, producedCode(p.sendBatch("0", p.batch(1, "x"))), "an empty partition begins at 0")
			for i := range 7 {
				out := p.send("0", fmt.Sprint("a", i), fmt.Sprint("b", i))
				require.Nil(t, out.Err)
				require.Equal(t, format.Offset(2*i), out.Base)
			}
			require.Nil(t, other.send("0", "o").Err)
			for range 2 {
				for i := range 7 {
					out := p.sendBatch("0", p.batch(int32(2*i), "a", "b"))
					if i < 2 {
						require.Equal(t, engine.CodeDuplicateSequence, producedCode(out))
						continue
					}
					require.Nil(t, out.Err)
					require.True(t, out.Duplicate)
					require.Equal(t, format.Offset(2*i), out.Base)
				}
				require.Equal(t, engine.CodeOutOfSequence, producedCode(p.sendBatch("0", p.batch(15, "x"))))
				require.Equal(t, engine.CodeDuplicateSequence, producedCode(p.sendBatch("0", p.batch(13, "x"))), "half of a batch is no repeat of it")
				require.Equal(t, format.Offset(15), r.fetch("0", 0, false).End)
				again()
			}
			require.Equal(t, engine.CodeOutOfSequence, producedCode(r.withEpoch(p, 1).sendBatch("0", r.withEpoch(p, 1).batch(14, "x"))))
			next := &producer{r: r, id: p.id}
			require.NoError(t, next.init(p.id.ID, p.id.Epoch))
			require.Equal(t, engine.ProducerIdentity{ID: p.id.ID, Epoch: 1}, next.id)
			require.Nil(t, next.send("0", "later").Err)
			require.Equal(t, engine.CodeProducerEpoch, producedCode(p.send("0", "x")))
			states, err := r.node.Records().Producers(context.Background(), someone, engine.PartitionRef{Queue: "q", Partition: "0"})
			require.NoError(t, err)
			require.Equal(t, []engine.ProducerState{{ID: p.id.ID, Epoch: 1, LastTimestamp: 1000}, {ID: other.id.ID, LastTimestamp: 1000}}, states)
			r.clock.Advance(25 * time.Hour)
			require.Nil(t, p.sendBatch("0", p.batch(14, "x")).Err, "who was silent for a day is forgotten")
			require.Equal(t, int64(0), int64(r.fetch("0", 0, false).Start))
			require.NotContains(t, []int64{p.id.ID, other.id.ID}, r.producer("").id.ID)
		})
	}
}

func (r *recordRig) withEpoch(p *producer, epoch int16) *producer {
	return &producer{r: r, name: p.name, id: engine.ProducerIdentity{ID: p.id.ID, Epoch: epoch}, implicit: p.implicit}
}

// Goal: a transaction over several partitions is seen by nobody before it ends, and then whole or not at all; Kafka's
// clients count one offset for its end on each; native ones see neither that nor what was aborted.
func TestTransactionsOfRecords(t *testing.T) {
	for _, implicit := range []bool{false, true} {
		t.Run(fmt.Sprint("implicit=", implicit), func(t *testing.T) {
			r := newRecordRig(t)
			p := r.producer("tx")
			p.implicit = implicit
			r.say("0", `"before"`)
			r.popped("g") // registered, and at the end
			open := func(values ...string) {
				t.Helper()
				if !implicit {
					require.Equal(t, engine.CodeTxnState, producedCode(p.send("0", "x")))
					require.NoError(t, p.add("0", "1"))
				}
				for _, v := range values {
					require.Nil(t, p.send("0", v).Err)
					require.Nil(t, p.send("1", v).Err)
				}
			}
			open("a", "b")
			r.say("0", `"between"`)
			f := r.fetch("0", 0, true)
			require.Equal(t, []string{`0="before"`}, values(t, f))
			require.Equal(t, format.Offset(1), f.Stable)
			require.Equal(t, format.Offset(4), f.End)
			require.Equal(t, []string{`0="before"`, "1=a", "2=b", `3="between"`}, values(t, r.fetch("0", 0, false)))
			require.Empty(t, r.popped("g"))
			info, err := r.node.Records().Transaction(context.Background(), someone, "tx")
			require.NoError(t, err)
			require.Equal(t, engine.TxnOngoing, info.State)
			require.Equal(t, []engine.PartitionRef{{Queue: "q", Partition: "0"}, {Queue: "q", Partition: "1"}}, info.Partitions)

			require.NoError(t, p.end(true, implicit))
			require.Equal(t, []string{`0="before"`, "1=a", "2=b", `3="between"`, "4=control"}, values(t, r.fetch("0", 0, true)))
			require.Equal(t, []string{"0=a", "1=b", "2=control"}, values(t, r.fetch("1", 0, true)))
			require.ElementsMatch(t, []string{"1=" + envelope("a", 1000), "2=" + envelope("b", 1000), `3="between"`,
				"0=" + envelope("a", 1000), "1=" + envelope("b", 1000)}, r.popped("g"))

			open("c")
			require.NoError(t, p.end(false, implicit))
			r.say("0", `"after"`)
			f = r.fetch("0", 4, true)
			require.Equal(t, []string{"4=control", "5=c", "6=control", `7="after"`}, values(t, f))
			require.Equal(t, []engine.Aborted{{Producer: p.id.ID, First: 5}}, f.Aborted)
			require.Equal(t, []string{`7="after"`}, r.popped("g"))
			require.Empty(t, r.fetch("0", 7, true).Aborted)
			require.Empty(t, r.fetch("0", 0, false).Aborted, "who reads everything is told of none")
			check := func() {
				t.Helper()
				f := r.fetch("0", 0, true)
				require.Equal(t, "[0=\"before\" 1=a 2=b 3=\"between\" 4=control 5=c 6=control 7=\"after\"]", fmt.Sprint(values(t, f)))
				require.Equal(t, []engine.Aborted{{Producer: p.id.ID, First: 5}}, f.Aborted)
				native := r.popped(fmt.Sprint("fresh", time.Now().UnixNano()))
				require.Len(t, native, 4+2+1)
				require.False(t, strings.Contains(strings.Join(native, " "), envelope("c", 1000)))
			}
			check()
			r.crash()
			check()
			for i := range 80 { // segments are closed, and what is left of the first ones may move
				r.say("other", fmt.Sprint(i, strings.Repeat("x", 8192)))
			}
			r.close()
			r.open()
			f = r.fetch("0", 0, true)
			require.Equal(t, "[0=\"before\" 1=a 2=b 3=\"between\" 4=control 5=c 6=control 7=\"after\"]", fmt.Sprint(values(t, f)))
		})
	}
}

// Goal: who may do what with a transactional id (spec 3.4).
func TestTransactionalIDs(t *testing.T) {
	r := newRecordRig(t)
	_, err := r.node.Records().InitProducer(context.Background(), someone, engine.ProducerInit{
		ProducerRef: engine.ProducerRef{TransactionalID: "tx", ID: engine.NoProducer}})
	require.Equal(t, engine.CodeBadRequest, code(err), "without a timeout")
	p := r.producer("tx")
	require.Equal(t, engine.CodeTxnState, code(p.end(true, false)), "nothing began")
	require.NoError(t, p.add("0"))
	require.Nil(t, p.send("0", "a").Err)

	// Another one takes the id over: what was open is aborted, the first is fenced.
	q := r.producer("tx")
	require.Equal(t, p.id.ID, q.id.ID)
	require.Equal(t, p.id.Epoch+1, q.id.Epoch)
	f := r.fetch("0", 0, true)
	require.Equal(t, []string{"0=a", "1=control"}, values(t, f))
	require.Len(t, f.Aborted, 1)
	require.Equal(t, engine.CodeProducerFenced, code(p.end(true, false)))
	require.Equal(t, engine.CodeProducerFenced, code(p.add("0")))
	require.Equal(t, engine.CodeProducerEpoch, producedCode(p.send("0", "x")))
	require.Equal(t, engine.CodeProducerFenced, code(p.init(p.id.ID, p.id.Epoch)))
	wrong := r.withEpoch(q, q.id.Epoch)
	wrong.id.ID += 64
	require.Equal(t, engine.CodeProducerMapping, code(wrong.add("0")))
	require.Equal(t, engine.CodeProducerMapping, code(wrong.end(true, false)))
	require.Equal(t, engine.CodeProducerEpoch, code(r.withEpoch(q, q.id.Epoch+1).add("0")))
	stranger := &producer{r: r, name: "nobody", id: q.id}
	require.Equal(t, engine.CodeProducerMapping, code(stranger.add("0")))

	// Ends repeated: as before with the same outcome, refused with the other.
	require.NoError(t, q.add("0", "1"))
	require.Nil(t, q.send("0", "b").Err)
	require.NoError(t, q.end(true, false))
	require.NoError(t, q.end(true, false))
	require.Equal(t, engine.CodeTxnState, code(q.end(false, false)))
	require.Equal(t, []string{"2=b", "3=control"}, values(t, r.fetch("0", 2, true)))
	require.Equal(t, []string{"0=control"}, values(t, r.fetch("1", 0, true)), "a partition that was added and got nothing")

	// With a bump the repeat names the epoch of before.
	q.implicit = true
	before := r.withEpoch(q, q.id.Epoch)
	require.Nil(t, q.send("0", "c").Err)
	require.NoError(t, q.end(true, true))
	require.Equal(t, before.id.Epoch+1, q.id.Epoch)
	require.NoError(t, before.end(true, true))
	require.Equal(t, q.id, before.id)
	require.Equal(t, engine.CodeTxnState, code(q.end(true, true)))
	require.NoError(t, q.end(false, true), "an abort of nothing, for clients that can not know")

	// One that lost its answer asks for its next epoch again.
	last := q.id
	require.NoError(t, q.init(last.ID, last.Epoch))
	require.Equal(t, last.Epoch+1, q.id.Epoch)
	require.NoError(t, q.init(last.ID, last.Epoch))
	require.Equal(t, last.Epoch+1, q.id.Epoch)

	// Time.
	require.Nil(t, q.send("0", "d").Err)
	r.clock.Advance(59 * time.Second)
	r.node.Settle()
	require.Nil(t, q.send("0", "e").Err)
	r.clock.Advance(2 * time.Second)
	r.node.Settle()
	require.Equal(t, engine.CodeProducerFenced, code(q.end(true, true)))
	f = r.fetch("0", 6, true)
	require.Equal(t, []string{"6=d", "7=e", "8=control"}, values(t, f))
	require.Equal(t, []engine.Aborted{{Producer: q.id.ID, First: 6}}, f.Aborted)
	info, err := r.node.Records().Transaction(context.Background(), someone, "tx")
	require.NoError(t, err)
	require.Equal(t, engine.TxnAborted, info.State)
	rows, next, err := r.node.Records().Transactions(context.Background(), someone, "", 0)
	require.NoError(t, err)
	require.Empty(t, next)
	require.Equal(t, []engine.TxnInfo{info}, rows)
	_, err = r.node.Records().Transaction(context.Background(), engine.Caller{Tenant: format.Tenant{7}}, "tx")
	require.Equal(t, engine.CodeNotFound, code(err))
}

// Goal: a producer that was fenced ends nothing of its successor's when it asks for an identity; one that takes the id
// over does, and who is fenced by that is told with its next batch, also where batches begin transactions.
func TestFencedProducerAbortsNothing(t *testing.T) {
	r := newRecordRig(t)
	old := r.producer("tx")
	p := r.producer("tx")
	p.implicit = true
	require.Nil(t, p.send("0", "a").Err)
	require.Equal(t, engine.CodeProducerFenced, code(old.init(old.id.ID, old.id.Epoch)))
	require.Equal(t, engine.CodeProducerMapping, code(old.init(old.id.ID+64, p.id.Epoch)))
	require.Nil(t, p.send("0", "b").Err)
	require.NoError(t, p.end(true, false))
	f := r.fetch("0", 0, true)
	require.Equal(t, []string{"0=a", "1=b", "2=control"}, values(t, f))
	require.Empty(t, f.Aborted)

	// Its own it may abort, with which its epoch rises.
	require.Nil(t, p.send("0", "c").Err)
	before := r.withEpoch(p, p.id.Epoch)
	require.NoError(t, p.init(p.id.ID, p.id.Epoch))
	require.Equal(t, before.id.Epoch+1, p.id.Epoch)
	require.Len(t, r.fetch("0", 3, true).Aborted, 1)
	require.Nil(t, p.send("0", "d").Err)
	next := r.producer("tx")
	require.Equal(t, p.id.Epoch+1, next.id.Epoch)
	require.Equal(t, engine.CodeProducerEpoch, producedCode(p.send("0", "e")))
	require.Equal(t, engine.CodeProducerFenced, code(p.end(true, true)))
	require.Len(t, r.fetch("0", 3, true).Aborted, 2)

	other := r.producer("other")
	require.NoError(t, other.add("0"))
	other.name = "tx"
	require.Equal(t, engine.CodeProducerMapping, code(other.end(true, false)), "it is bound to another id")
}

// Goal: positions of a transaction count when it commits, and until then say that they are coming.
func TestPositionsOfATransaction(t *testing.T) {
	r := newRecordRig(t)
	for range 5 {
		r.say("0", `"m"`)
	}
	p := r.producer("tx")
	commit := func(implicit bool, to format.Offset) error {
		errs, err := r.node.Records().CommitOffsets(context.Background(), someone, engine.GroupCommit{Group: "g", Producer: p.ref(), Implicit: implicit,
			Positions: []engine.GroupPosition{{Queue: "q", Partition: "0", Offset: to, LeaderEpoch: 1, Metadata: "note"}}})
		if err == nil && errs[0] != nil {
			err = errs[0]
		}
		return err
	}
	committed := func() engine.GroupOffset {
		out, err := r.node.Records().Committed(context.Background(), someone, "g", []engine.PartitionRef{{Queue: "q", Partition: "0"}})
		require.NoError(t, err)
		return out[0]
	}
	require.Equal(t, engine.CodeTxnState, code(commit(false, 2)))
	require.NoError(t, p.add()) // AddOffsetsToTxn
	require.NoError(t, commit(false, 2))
	require.NoError(t, commit(false, 3))
	got := committed()
	require.True(t, got.Unstable)
	require.False(t, got.Found)
	r.crash()
	require.True(t, committed().Unstable)
	require.NoError(t, p.end(true, false))
	got = committed()
	require.Equal(t, engine.GroupOffset{PartitionRef: engine.PartitionRef{Queue: "q", Partition: "0"}, Found: true, Offset: 3, LeaderEpoch: 1,
		Metadata: "note"}, got)
	require.NoError(t, commit(true, 5))
	require.True(t, committed().Unstable)
	require.NoError(t, p.end(false, true))
	require.Equal(t, got, committed())
}

// Goal: starts that clients move up hold for both kinds of reader.
func TestDeleteRecords(t *testing.T) {
	r := newRecordRig(t)
	require.Nil(t, r.produce("0", recordsOf(t, head(), "a", "b")).Err)
	require.Nil(t, r.produce("0", recordsOf(t, head(), "c", "d")).Err)
	r.say("1", `"x"`)
	out, err := r.node.Records().DeleteRecords(context.Background(), someone, []engine.FetchAt{
		{Queue: "q", Partition: "0", Offset: 2}, {Queue: "q", Partition: "1", Offset: engine.DeleteToEnd},
		{Queue: "q", Partition: "0", Offset: 9}, {Queue: "q", Partition: "7"}})
	require.NoError(t, err)
	require.Equal(t, engine.RecordOffset{Found: true, Offset: 2, Timestamp: -1}, out[0])
	require.Equal(t, engine.RecordOffset{Found: true, Offset: 1, Timestamp: -1}, out[1])
	require.Equal(t, engine.CodeOffsetOutOfRange, out[2].Err.Code)
	require.Equal(t, engine.CodeUnknownPartition, out[3].Err.Code)
	require.Equal(t, engine.CodeOffsetOutOfRange, r.fetch("0", 1, false).Err.Code)
	require.Equal(t, []string{"2=c", "3=d"}, values(t, r.fetch("0", 2, false)))
	require.Equal(t, []string{"2=" + envelope("c", 1000), "3=" + envelope("d", 1001)}, r.popped("g"))
}

// Goal: the last stable offset is not below the log start, whatever moved that past an open transaction.
func TestStableIsNotBelowTheStart(t *testing.T) {
	for _, aged := range []bool{false, true} {
		t.Run(fmt.Sprint("aged=", aged), func(t *testing.T) {
			r := newRecordRig(t)
			r.timeout = time.Hour
			p := r.producer("tx")
			p.implicit = true
			require.Nil(t, p.send("0", "a", "b", "c").Err)
			start := format.Offset(2)
			if aged {
				r.configure(format.QueueOptions{Set: format.OptRetentionSeconds | format.OptRetentionEnabled, RetentionSeconds: 60, RetentionEnabled: true})
				r.clock.Advance(5 * time.Minute)
				r.node.Settle()
				start = 3
				require.Nil(t, p.send("0", "d").Err)
			} else {
				out, err := r.node.Records().DeleteRecords(context.Background(), someone, []engine.FetchAt{{Queue: "q", Partition: "0", Offset: start}})
				require.NoError(t, err)
				require.Nil(t, out[0].Err)
			}
			f := r.fetch("0", start, true)
			require.Nil(t, f.Err)
			require.Equal(t, start, f.Start)
			require.Equal(t, start, f.Stable)
			require.Empty(t, f.Frames, "what is left of the transaction is not decided")
			require.Equal(t, start, r.offset(engine.RecordOffsetQuery{Kind: engine.RecordStable}).Offset)
			require.Equal(t, start, r.offset(engine.RecordOffsetQuery{Kind: engine.RecordLatest, Committed: true}).Offset)
			require.Equal(t, f.End, r.offset(engine.RecordOffsetQuery{Kind: engine.RecordLatest}).Offset)
			require.Equal(t, start, r.offset(engine.RecordOffsetQuery{Kind: engine.RecordEarliest, Committed: true}).Offset)
		})
	}
}

// Goal: aborted records are delivered to nobody, also when what tells that they were goes while they are read.
func TestAbortedRecordsThatGo(t *testing.T) {
	for _, moves := range []string{"", "start", "age"} {
		r := newRecordRig(t)
		r.configure(format.QueueOptions{Set: format.OptRetentionSeconds | format.OptRetentionEnabled, RetentionSeconds: 60, RetentionEnabled: true})
		p := r.producer("tx")
		p.implicit = true
		require.Nil(t, p.send("0", "a", "b").Err)
		require.NoError(t, p.end(false, true))
		r.clock.Advance(time.Second)
		require.Nil(t, r.produce("0", recordsOf(t, head(), "c")).Err)
		at := engine.FetchAt{Queue: "q", Partition: "0", MaxBytes: 1 << 20}
		f, native, err := r.node.FetchCommitted(someone, at, func() {
			if moves == "age" {
				r.clock.Advance(time.Minute)
				r.node.Settle()
				require.Zero(t, r.node.AbortedRanges("q"))
			}
			if moves == "start" {
				at.Offset = 3
				out, err := r.node.Records().DeleteRecords(context.Background(), someone, []engine.FetchAt{at})
				require.NoError(t, err)
				require.Nil(t, out[0].Err)
			}
		})
		require.NoError(t, err)
		require.Equal(t, []format.Offset{3}, native)
		if moves != "" {
			require.Empty(t, f.Frames)
			continue
		}
		require.Len(t, f.Frames, 3)
		require.Len(t, f.Aborted, 1)
	}
}

// Goal: a transaction has no bound that anybody meets: thousands of partitions and positions end in one step, also when
// the node is started anew in the middle.
func TestLargeTransaction(t *testing.T) {
	const partitions, positions = 2000, 5000
	r := newRecordRig(t)
	p := r.producer("tx")
	batches := make([]engine.RecordBatch, partitions)
	for i := range batches {
		batches[i] = engine.RecordBatch{Queue: "q", Partition: fmt.Sprint(i), Batch: p.batch(0, "a", "b"), Implicit: true}
	}
	for some := range slices.Chunk(batches, 200) { // segments of tests are small
		out, err := r.node.Records().Produce(context.Background(), someone, some)
		require.NoError(t, err)
		for i := range out {
			require.Nil(t, out[i].Err)
		}
	}
	g := engine.GroupCommit{Group: "g", Producer: p.ref()}
	refs := make([]engine.PartitionRef, positions)
	for i := range refs {
		refs[i] = engine.PartitionRef{Queue: "q", Partition: fmt.Sprint(i)}
		g.Positions = append(g.Positions, engine.GroupPosition{Queue: "q", Partition: fmt.Sprint(i), LeaderEpoch: -1, Metadata: "m"})
	}
	for some := range slices.Chunk(g.Positions, 1000) {
		g.Positions = some
		errs, err := r.node.Records().CommitOffsets(context.Background(), someone, g)
		require.NoError(t, err)
		require.Len(t, errs, len(some))
	}
	r.clock.Advance(5 * time.Second)
	r.node.Settle()
	r.crash()
	require.NoError(t, p.end(true, true))
	for _, i := range []int{0, 777, partitions - 1} {
		require.Equal(t, []string{"0=a", "1=b", "2=control"}, values(t, r.fetch(fmt.Sprint(i), 0, true)))
	}
	got, err := r.node.Records().Committed(context.Background(), someone, "g", refs)
	require.NoError(t, err)
	for i := range got {
		require.True(t, got[i].Found && !got[i].Unstable, i)
	}
	r.crash()
	require.Equal(t, []string{"0=a", "1=b", "2=control"}, values(t, r.fetch("1234", 0, true)))
	require.Len(t, r.popped("h"), 2*partitions)
}

// Goal: positions of one transaction have a bound, and so have their bytes, which the error names; what is committed again
// counts once. The transaction goes on, also after a restart, and so does its producer.
func TestPositionsOfATransactionAreBounded(t *testing.T) {
	const most, bytes = 40, 10_000
	r := newRecordRig(t)
	r.node.BoundPending(most, bytes)
	p := r.producer("tx")
	commit := func(from, to int, note string) error {
		g := engine.GroupCommit{Group: "g", Producer: p.ref(), Implicit: true}
		for i := from; i < to; i++ {
			g.Positions = append(g.Positions, engine.GroupPosition{Queue: "q", Partition: fmt.Sprint(i), LeaderEpoch: -1, Metadata: note})
		}
		_, err := r.node.Records().CommitOffsets(context.Background(), someone, g)
		return err
	}
	full := func() {
		t.Helper()
		var e *engine.Error
		require.ErrorAs(t, commit(most, most+1, ""), &e)
		require.Equal(t, engine.CodeTooLarge, e.Code)
		require.Equal(t, "positions", e.Field)
		require.Contains(t, e.Limit, "40 positions and 10000 bytes")
	}
	require.Equal(t, engine.CodeTooLarge, code(commit(0, most+1, "")))
	require.NoError(t, commit(0, 30, ""))
	require.NoError(t, commit(20, most, ""))
	full()
	require.NoError(t, commit(0, most, ""))
	require.Equal(t, engine.CodeTooLarge, code(commit(0, 1, strings.Repeat("n", 4000))))
	require.NoError(t, commit(0, 1, strings.Repeat("n", 3000)))
	r.clock.Advance(5 * time.Second)
	r.node.Settle()
	r.crash()
	r.node.BoundPending(most, bytes)
	full()
	require.Equal(t, engine.CodeTooLarge, code(commit(1, 2, strings.Repeat("n", 1000))))
	require.NoError(t, p.end(true, true))
	require.NoError(t, commit(most, 2*most, ""))
	require.NoError(t, p.end(false, true))
	got, err := r.node.Records().Committed(context.Background(), someone, "g", nil)
	require.NoError(t, err)
	require.Len(t, got, most)
}
