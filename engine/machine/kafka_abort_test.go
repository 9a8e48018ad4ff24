package machine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"queen/engine/format"
)

// abortRig is a kafkaRig whose queue keeps a minute, with one producer that aborts.
type abortRig struct {
	kafkaRig
	id    format.ProducerID
	epoch int16
}

func newAbortRig(t testing.TB) *abortRig {
	r := &abortRig{kafkaRig: newKafkaRig(t)}
	r.keep(60)
	r.id, r.epoch = r.init("a")
	return r
}

func (r *abortRig) keep(seconds int64) {
	r.t.Helper()
	r.buf.AddConfigure(&format.Configure{Tenant: format.DefaultTenant, Queue: []byte("q"), Patch: format.QueueOptions{
		Set: format.OptRetentionSeconds | format.OptRetentionEnabled, RetentionSeconds: seconds, RetentionEnabled: seconds > 0}})
	r.ok(format.CodeOK)
}

// ended is one transaction of a record on each of the partitions.
func (r *abortRig) ended(commit bool, parts ...string) {
	r.t.Helper()
	for _, p := range parts {
		r.txn(p, r.id, r.epoch, 0)
	}
	r.epoch = r.end(r.id, r.epoch, commit, format.CodeOK).Epoch
}

func (r *abortRig) retain(cutoff format.Wall, aborts uint32, want format.Code) {
	r.t.Helper()
	q, _ := r.m.QueueByName(format.DefaultTenant, "q")
	r.buf.AddRetain(&format.Retain{Queue: q.ID, Cutoff: cutoff, Generation: q.OptionGen, Aborts: aborts})
	r.ok(want)
}

// rows are the aborted ranges that a machine knows, by partition.
func (r *abortRig) rows(m *Machine) (all []string) {
	for _, name := range kafkaParts {
		p, ok := m.PartitionByName(format.DefaultTenant, "q", name)
		if !ok {
			continue
		}
		for _, a := range m.AbortedRanges(nil, p.ID, 0, p.Next) {
			all = append(all, fmt.Sprint(name, ":", a.First, "-", a.Last))
		}
	}
	return all
}

func (r *abortRig) want(rows ...string) {
	r.t.Helper()
	if got := r.rows(r.m); !slices.Equal(got, rows) || len(got) != r.m.kafka.aborts.Len() {
		r.t.Fatalf("aborted ranges %v, want %v of %d rows", got, rows, r.m.kafka.aborts.Len())
	}
}

// Goal: time retention forgets aborted ranges of partitions to which nothing happens any more, the oldest first, as many as
// the command says, and none of which a record is still there.
func TestRetentionForgetsAborts(t *testing.T) {
	r := newAbortRig(t)
	r.ended(false, "0", "1")
	r.advance(10 * time.Second)
	r.ended(false, "0")
	r.ended(true, "1")
	r.advance(10 * time.Second)
	r.ended(false, "side")
	last := r.W
	all := []string{"0:0-1", "0:2-3", "1:0-1", "side:0-1"}
	r.want(all...)
	r.advance(60 * time.Second)
	r.retain(startW, 9, format.CodeOK)
	r.want(all...) // they ended at the cutoff: their records are still there
	r.retain(last, 0, format.CodeOK)
	r.want(all...) // a command of before forgets none
	if n := r.m.OldAborts(1, last, 9); n != 3 {
		t.Fatal(n)
	}
	if n := r.m.OldAborts(1, last, 2); n != 2 {
		t.Fatal(n)
	}
	r.retain(last, 2, format.CodeOK)
	r.want("0:2-3", "side:0-1")
	r.retain(startW, 9, format.CodeOK) // to where it was long before
	r.want("side:0-1")
	r.retain(last+1, 9, format.CodeStaleEvidence)
	r.advance(time.Second)
	r.keep(0)
	r.retain(last+1, 9, format.CodeStaleEvidence) // kept for ever
	r.want("side:0-1")
	r.keep(60)
	r.retain(last+1, 9, format.CodeOK)
	r.want()
	r.retain(last+1, 9, format.CodeOK)
}

// Goal: a Retain forgets aborted ranges of its own queue only, and those of a queue or a partition that goes are not met again.
func TestRetentionForgetsAbortsOfItsQueue(t *testing.T) {
	r := newAbortRig(t)
	for _, queue := range []string{"p", "r"} { // p is before q by name and both are behind it by number
		r.buf.AddConfigure(&format.Configure{Tenant: format.DefaultTenant, Queue: []byte(queue)})
		r.ok(format.CodeOK)
		r.buf.AddAppend(&format.Append{Tenant: format.DefaultTenant, Queue: []byte(queue), Partition: []byte("0"), Frame: format.FrameKafka, Count: 1,
			Batch: format.BatchHead{Idempotent: true, Timed: true, Producer: r.id, Epoch: r.epoch, Transactional: true, Implicit: true}},
			format.EncodeKafkaFrame(nil, 1, []byte("b")))
		r.ok(format.CodeOK)
	}
	r.ended(false, "0", "1", "side")
	if n := r.m.kafka.aborts.Len(); n != 5 {
		t.Fatal(n)
	}
	p, _ := r.m.PartitionByName(format.DefaultTenant, "q", "1")
	r.buf.AddDelete(&format.Delete{What: format.DeletePartition, Tenant: format.DefaultTenant, Partition: p.ID, Offset: p.Next})
	r.ok(format.CodeOK)
	r.advance(61 * time.Second)
	if n := r.m.OldAborts(1, r.W, 9); n != 2 {
		t.Fatal(n)
	}
	r.retain(startW+1, 9, format.CodeOK)
	if n := r.m.kafka.aborts.Len(); n != 2 {
		t.Fatalf("%d aborted ranges, want those of the other queues", n)
	}
	r.buf.AddDelete(&format.Delete{What: format.DeleteQueue, Tenant: format.DefaultTenant, Queue: []byte("p")})
	r.buf.AddSweep(&format.Sweep{Limit: 100})
	r.ok(format.CodeOK)
	if n := r.m.kafka.aborts.Len() + int(r.m.OldAborts(2, r.W, 9)); n != 1 {
		t.Fatal(n)
	}
}

// abortModel is a slower account of which aborted ranges are known.
type abortModel struct {
	rows   [3][]abortRow // of kafkaParts, which come into being in this order
	next   [3]int
	trim   [3]int
	cutoff format.Wall
}

type abortRow struct {
	first, last int
	w           format.Wall
}

// drop is what an abort on the partition, or a trim of it, takes along.
func (a *abortModel) drop(i int) {
	for len(a.rows[i]) > 0 && (a.rows[i][0].last < a.trim[i] || a.rows[i][0].w < a.cutoff) {
		a.rows[i] = a.rows[i][1:]
	}
}

func (a *abortModel) forget(n int) {
	for ; n > 0; n-- {
		at := -1
		for i, rows := range a.rows {
			if len(rows) > 0 && rows[0].w < a.cutoff && (at < 0 || rows[0].w < a.rows[at][0].w) {
				at = i
			}
		}
		if at < 0 {
			return
		}
		a.rows[at] = a.rows[at][1:]
	}
}

func (a *abortModel) list() (all []string) {
	for i, rows := range a.rows {
		for _, row := range rows {
			all = append(all, fmt.Sprint(kafkaParts[i], ":", row.first, "-", row.last))
		}
	}
	return all
}

// TestAbortsRandom runs random transactions, trims and retentions through the machine and a model of the aborted ranges. Then
// the log is applied again from its start, and from a snapshot in the middle: the same ranges, the same digest.
func TestAbortsRandom(t *testing.T) {
	forgot, partly := 0, 0
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		r, ref := newAbortRig(t), abortModel{}
		r.ended(true, kafkaParts...)
		ref.next = [3]int{2, 2, 2}
		im, mid, from := newImages(t), (*Machine)(nil), 0
		for i := range 200 {
			switch n := rnd.IntN(10); {
			case n < 5:
				commit := rnd.IntN(4) == 0
				var parts []string
				for k, name := range kafkaParts {
					if rnd.IntN(2) == 0 {
						parts = append(parts, name)
						if !commit {
							ref.drop(k)
							ref.rows[k] = append(ref.rows[k], abortRow{ref.next[k], ref.next[k] + 1, r.W})
						}
						ref.next[k] += 2
					}
				}
				if len(parts) > 0 {
					r.ended(commit, parts...)
				}
			case n < 7:
				r.advance(time.Duration(rnd.IntN(20)) * time.Second)
			case n < 8:
				k := rnd.IntN(3)
				p, _ := r.m.PartitionByName(format.DefaultTenant, "q", kafkaParts[k])
				if upto := rnd.IntN(ref.next[k]); upto > ref.trim[k] {
					r.buf.AddTrim(&format.Trim{Queue: p.Queue, Items: []format.TrimItem{{Partition: p.ID, Upto: format.Offset(upto)}}})
					r.ok(format.CodeOK)
					ref.trim[k] = upto
					ref.drop(k)
				}
			default:
				before, most := len(ref.list()), rnd.IntN(4)
				cutoff := r.W - 60_000_000 - format.Wall(rnd.IntN(2)*rnd.IntN(30_000_000))
				r.retain(cutoff, uint32(most), format.CodeOK)
				ref.cutoff = max(ref.cutoff, cutoff)
				ref.forget(most)
				n := before - len(ref.list())
				forgot += n
				if n > 0 && r.m.OldAborts(1, ref.cutoff, 1) > 0 {
					partly++
				}
			}
			r.want(ref.list()...)
			if i%40 == 39 {
				mark, _ := r.m.Marks()
				r.buf.AddMark(&format.Mark{Number: mark + 1, Digest: r.m.Digest()})
				r.ok(format.CodeOK)
				if im.take(r.m, i%80 == 39); i < 120 {
					mid, from = im.load(r.m), len(r.log)
				}
			}
		}
		again := New(Options{Group: 1})
		for _, x := range []struct {
			m    *Machine
			from int
		}{{again, 0}, {mid, from}} {
			var out format.Results
			for _, l := range r.log[x.from:] {
				e, _ := format.ParseEntry(l.data)
				if err := x.m.Apply(l.index, &e, &out); err != nil {
					t.Fatal(err)
				}
			}
			if x.m.Digest() != r.m.Digest() || !slices.Equal(r.rows(x.m), ref.list()) {
				t.Errorf("seed %d: another digest, or ranges %v instead of %v", seed, r.rows(x.m), ref.list())
			}
			if err := checkState(x.m); err != nil {
				t.Error(err)
			}
		}
	}
	if forgot == 0 || partly == 0 {
		t.Errorf("%d ranges forgotten, %d commands left some", forgot, partly)
	}
}
