package idruns

import (
	"fmt"
	"sort"

	"queen/engine/format"
	"queen/engine/logstore/runfile"
)

const (
	// mergeBlocks is how many blocks of an input are read when less than mergeLow rows of it are in hand: what is in
	// hand of all inputs stays in the processor's cache.
	mergeBlocks = 4
	mergeLow    = 128
	// rowBits name a row in hand beside its input in a ref; so many inputs there can be.
	rowBits   = 20
	inputsMax = 1 << (32 - rowBits)
)

// merging gives the rows of runs in one order. It goes by stretches: of every input it holds some rows, and what lies
// below the least of their ends is complete, so that it can be put in order by a sorter, to which the number of inputs
// makes no difference.
type merging struct {
	inputs []*input
	order  sorter
}

// input is what is in hand of a run.
type input struct {
	r      *run
	scan   *runfile.Scanner[format.IDBlock]
	rows   []format.IDRow
	spread []uint64 // of rows
	next   int      // rows before it were given
	end    int      // of the rows that are being given
	done   bool     // everything was read
}

func newMerging(runs []*run) (*merging, error) {
	if len(runs) > inputsMax {
		return nil, fmt.Errorf("idruns: %d runs to merge", len(runs))
	}
	m := &merging{inputs: make([]*input, len(runs))}
	for i, r := range runs {
		m.inputs[i] = &input{r: r, scan: r.file.Scan(0)}
	}
	return m, nil
}

// read takes more blocks in hand.
func (in *input) read() error {
	n := copy(in.rows, in.rows[in.next:])
	copy(in.spread, in.spread[in.next:])
	in.rows, in.spread, in.next = in.rows[:n], in.spread[:n], 0
	for range mergeBlocks {
		b, err := in.scan.Next()
		if err != nil {
			return in.r.damage(err)
		}
		if b == nil {
			in.done = true
			return nil
		}
		in.rows, in.spread = b.AppendTo(in.rows, in.spread)
	}
	if len(in.rows) >= 1<<rowBits {
		return in.r.damage(fmt.Errorf("%d rows of one spread", len(in.rows)))
	}
	return nil
}

// stretch gives the next rows in order to emit and returns their number, 0 at the end.
func (m *merging) stretch(emit func(spread uint64, r *format.IDRow) error) (rows int, err error) {
	for {
		for _, in := range m.inputs {
			if !in.done && len(in.rows)-in.next < mergeLow {
				if err := in.read(); err != nil {
					return 0, err
				}
			}
		}
		end, last := m.limit()
		if rows = m.cut(end, last == nil); rows > 0 {
			break
		}
		if last == nil {
			return 0, nil
		}
		if err := last.read(); err != nil { // all in hand of it has one spread
			return 0, err
		}
	}
	refs := m.sort(rows)
	for _, ref := range refs {
		if err := emit(ref.spread, m.row(ref.at)); err != nil {
			return 0, err
		}
	}
	for _, in := range m.inputs {
		in.next = in.end
	}
	return rows, nil
}

// limit is the spread below which every row is in hand, and the input that sets it; nil when all is in hand.
func (m *merging) limit() (end uint64, by *input) {
	for _, in := range m.inputs {
		if in.done {
			continue
		}
		if last := in.spread[len(in.spread)-1]; by == nil || last < end {
			end, by = last, in
		}
	}
	return end, by
}

// cut marks the rows in hand below end, or all, as the next stretch and counts them.
func (m *merging) cut(end uint64, all bool) (rows int) {
	for _, in := range m.inputs {
		in.end = len(in.rows)
		if !all {
			in.end = in.next + sort.Search(len(in.spread)-in.next, func(i int) bool { return in.spread[in.next+i] >= end })
		}
		rows += in.end - in.next
	}
	return rows
}

func (m *merging) sort(rows int) []ref {
	low, high := ^uint64(0), uint64(0)
	for _, in := range m.inputs {
		if in.next < in.end {
			low, high = min(low, in.spread[in.next]), max(high, in.spread[in.end-1])
		}
	}
	deal := m.order.begin(rows, low, high)
	for _, in := range m.inputs {
		for _, spread := range in.spread[in.next:in.end] {
			deal.count(spread)
		}
	}
	deal.counted()
	for k, in := range m.inputs {
		for i, spread := range in.spread[in.next:in.end] {
			deal.place(spread, uint32(k)<<rowBits|uint32(in.next+i))
		}
	}
	return deal.finish(func(a, b uint32) bool { return m.row(a).Less(m.row(b)) })
}

func (m *merging) row(at uint32) *format.IDRow { return &m.inputs[at>>rowBits].rows[at&(1<<rowBits-1)] }
