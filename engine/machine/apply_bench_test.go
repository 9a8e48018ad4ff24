package machine

import (
	"fmt"
	"testing"

	"queen/engine/format"
)

// BenchmarkCycle is one message pushed with an id, popped and acked, over many partitions: what apply
// costs per message, decoding included.
func BenchmarkCycle(b *testing.B) {
	for _, parts := range []int{100, 100_000} {
		b.Run(fmt.Sprint(parts), func(b *testing.B) {
			r := big(b)
			r.spread("q", parts)
			r.drain("q", "g")
			r.log = nil
			const batch = 256
			id := 0
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += batch {
				b.StopTimer()
				for range batch {
					id++
					part := fmt.Sprintf("partition-%010d", id*7919%parts)
					r.addPush("q", part, []string{fmt.Sprint("id", id)}, nil)
				}
				e := r.entry()
				b.StartTimer()
				r.must(e)
				for {
					b.StopTimer()
					r.buf.AddPop(one("q", "g", format.StartAll, 1000, 64))
					e = r.entry()
					b.StartTimer()
					p := &r.must(e).Pops[0]
					if len(p.Claims) == 0 {
						break
					}
					b.StopTimer()
					for _, c := range p.Claims {
						r.addDone(c.Partition, "g", p.Lease, c.First, c.End)
					}
					e = r.entry()
					b.StartTimer()
					r.must(e)
				}
			}
		})
	}
}

// entry builds and parses an entry without applying it.
func (r *rig) entry() format.Entry {
	r.fuse++
	r.index++
	r.builder.Begin(format.EntryHeader{Epoch: r.epoch, T: r.T, W: r.W, Fuse: r.fuse})
	r.builder.Add(&r.buf)
	e, err := format.ParseEntry(r.builder.Finish(nil))
	if err != nil {
		r.t.Fatal(err)
	}
	r.buf.Reset()
	return e
}

func (r *rig) must(e format.Entry) *format.Results {
	if err := r.m.Apply(r.index, &e, &r.out); err != nil {
		r.t.Fatal(err)
	}
	return &r.out
}
