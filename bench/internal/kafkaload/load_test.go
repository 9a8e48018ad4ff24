package kafkaload

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"queen/bench/internal/ceiling"
)

func small(t *testing.T) Options {
	t.Helper()
	s, err := ceiling.Listen("127.0.0.1:0", ceiling.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	o := Defaults()
	o.Addr, o.Partitions, o.Producers, o.InFlight = s.Addr(), 40, 2, 2000
	// Records end the runs, not time.
	o.Warmup, o.Duration, o.Window, o.Records = 0, time.Hour, 20*time.Millisecond, 20_000
	return o
}

// TestAgainstCeiling runs the loader against the handler that only answers: everything that goes in comes out once, in order,
// and is counted on both sides and on the wire.
func TestAgainstCeiling(t *testing.T) {
	o := small(t)
	o.Backlog = 5000 // so that much of what is produced in the counted time is consumed in it
	windows := 0
	o.OnWindow = func(Window) { windows++ }
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Violations) > 0 || r.Left != 0 || r.Repeats != 0 {
		t.Errorf("%d left, %d repeats, %q", r.Left, r.Repeats, r.Violations)
	}
	if r.Produced < o.Records || r.Consumed < o.Records-uint64(o.Backlog)-uint64(o.InFlight)-uint64(o.Partitions) {
		t.Errorf("%d in, %d out", r.Produced, r.Consumed)
	}
	w := r.Wire
	// A batch holds Batch records, fewer if the client was stopped while it was filled; it is counted after its answer.
	if w.Batches*uint64(o.Batch)+uint64(o.InFlight) < r.Produced || w.Batches > 2*r.Produced/uint64(o.Batch) {
		t.Errorf("%d records in %d batches of %d", r.Produced, w.Batches, o.Batch)
	}
	if w.Produces == 0 || w.Fetches == 0 || w.FetchBytes < w.Fetches*20 || w.ProduceBytes < r.Produced*uint64(o.Size)/2 || w.FetchedBytes == 0 {
		t.Errorf("%+v", w)
	}
	inWindows := uint64(0)
	for _, w := range r.Windows {
		inWindows += w.Produced
	}
	if windows != len(r.Windows) || inWindows != r.Produced {
		t.Errorf("%d windows, of which %d count %d of %d", windows, len(r.Windows), inWindows, r.Produced)
	}
}

// TestPaced offers a rate: no more is produced than was due.
func TestPaced(t *testing.T) {
	o := small(t)
	o.Rate, o.Records = 5000, 2000
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if most := uint64(o.Rate*r.Elapsed.Seconds()) + uint64(o.Batch*o.Producers); r.Produced < o.Records || r.Produced > most || len(r.Violations) > 0 {
		t.Errorf("%d records in %v, at most %d are due: %q", r.Produced, r.Elapsed, most, r.Violations)
	}
}

// TestFromSend offers far more than is taken: the schedule is behind by the time gone, the sending of a record is not.
func TestFromSend(t *testing.T) {
	o := small(t)
	o.Rate, o.Records, o.FromSend = 1e9, 200_000, true
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	// A hundredth of the records is in flight at a time, so each waits for about that share of the run.
	if p50 := r.Produce.Percentile(50); p50 > r.Elapsed/4 || r.Produced < o.Records {
		t.Errorf("%d records, half of the batches took %v and more of %v", r.Produced, p50, r.Elapsed)
	}
}

// TestLoss lets the handler keep less than lies unconsumed: the fetch that comes too late ends the run.
func TestLoss(t *testing.T) {
	s, err := ceiling.Listen("127.0.0.1:0", ceiling.Options{KeepBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o := small(t)
	o.Addr, o.Drain = s.Addr(), 100*time.Millisecond
	r, err := Run(context.Background(), o)
	if err == nil && len(r.Violations) == 0 {
		t.Errorf("%d in, %d out, and nobody minds", r.Produced, r.Consumed)
	}
}

func TestEndedByCause(t *testing.T) {
	o := small(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	o.OnWindow = func(Window) { cancel(context.DeadlineExceeded) }
	if _, err := Run(ctx, o); err != context.DeadlineExceeded {
		t.Errorf("%v", err)
	}
}

func TestJudge(t *testing.T) {
	record := func(partition, number uint32, offset int64) *kgo.Record {
		return &kgo.Record{Partition: int32(partition), Offset: offset,
			Value: appendValue(nil, 30, stamp{run: 9, partition: partition, number: number, at: 5}, 1)}
	}
	elsewhere := record(1, 0, 0)
	elsewhere.Partition = 0
	for _, c := range []struct {
		name  string
		group bool
		recs  []*kgo.Record
		want  string // in the only violation
		fresh int
	}{
		{"in order", false, []*kgo.Record{record(0, 0, 0), record(1, 0, 0), record(0, 1, 1)}, "", 3},
		{"gap", false, []*kgo.Record{record(0, 0, 0), record(0, 2, 2)}, "records 1 to 1 are missing", 2},
		{"repeat", false, []*kgo.Record{record(0, 0, 0), record(0, 0, 0)}, "record 0 is repeated", 1},
		{"repeat in a group", true, []*kgo.Record{record(0, 0, 0), record(0, 0, 0)}, "", 1},
		{"offset", false, []*kgo.Record{record(0, 0, 1)}, "record 0 comes with offset 1", 1},
		{"of another partition", false, []*kgo.Record{elsewhere}, "what was not written there", 0},
		{"foreign", true, []*kgo.Record{{Value: []byte("x")}}, "what was not written there", 0},
	} {
		j := judge{run: 9, group: c.group, next: make([]atomic.Uint32, 2)}
		fresh := 0
		for _, rec := range c.recs {
			if s, ok := j.take(rec); ok {
				fresh++
				if s.at != 5 {
					t.Errorf("%s: %+v", c.name, s)
				}
			}
		}
		got := strings.Join(j.violations.list(), "; ")
		if fresh != c.fresh || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %d fresh, %q", c.name, fresh, got)
		}
	}
}

func TestSlope(t *testing.T) {
	var w []Window
	for i := range 4 {
		w = append(w, Window{From: time.Duration(i) * 30 * time.Second, Elapsed: 30 * time.Second})
		w[i].Usage.RSS = 1000 + int64(i)*50
	}
	if got := slope(w); got < 99.9 || got > 100.1 {
		t.Errorf("50 bytes in half a minute are %v a minute", got)
	}
	if got := slope(w[:1]); got != 0 {
		t.Errorf("one window has no slope: %v", got)
	}
}
