package idruns

import (
	"math/bits"

	"queen/engine/format"
)

// The rule of merging. It looks at nothing but the runs there are (the marks they cover and the stamps
// of their rows), the mark and the window, so that it decides the same everywhere.
//
// The chunks of ChunkGroup marks, 2^groupBits, are one run to begin with. Runs inside the marks (n-1)*2^k+1 to n*2^k, an
// aligned range, become one, if
//
//   - k is 4, 6, 8 and so on, so that four runs of about one size become one and a row is rewritten about log4
//     times, or k is the last that fits, so that there are not many runs of the largest size, and
//   - the range's stamps span at most an eighth of the window, so that a run is not kept for long when
//     its first rows are of no use any more, and merging adds little to what there is, and
//   - a quarter of the range's length in marks has passed since: the time in which the merge is done
//     in the background.
//
// A run is dropped when its newest row is older than the horizon, and the runs before it with it.
//
// A damaged run takes no part; what it holds up is merged at the first mark after its repair.
const (
	spanShare = 8  // of the window
	rangeMax  = 40 // largest k
	rangeStep = 2  // of k
	groupBits = 2  // of ChunkGroup
)

// aligned is the marks first to last, 2^k of them.
type aligned struct {
	k           int
	first, last uint64
}

func alignedAt(mark uint64, k int) aligned {
	first := (mark-1)>>k<<k + 1
	return aligned{k, first, first + 1<<k - 1}
}

// due is the mark from which on the range must be one run.
func (a aligned) due() uint64 { return a.last + uint64(1)<<a.k/4 }

// fits reports whether runs whose rows span that many microseconds become one.
func (a aligned) fits(span, window format.Wall) bool {
	if span > window/spanShare {
		return false
	}
	return (a.k-groupBits)%rangeStep == 0 || span > window/spanShare/2
}

// pick returns the smallest, then oldest, range of runs to merge of those that admit lets through; the
// runs are runs[i:j]. i == j when there is none.
func pick(runs []*run, window format.Wall, admit func(a aligned) bool) (i, j int) {
	if len(runs) < 2 {
		return 0, 0
	}
	top := min(rangeMax, bits.Len64(runs[len(runs)-1].last))
	for k := groupBits + 1; k <= top; k++ {
		for i := 0; i < len(runs); i = j {
			a := alignedAt(runs[i].first, k)
			j = i + 1
			for j < len(runs) && runs[j].first <= a.last {
				j++
			}
			if j-i < 2 || runs[j-1].last > a.last || !admit(a) || !usable(runs[i:j]) {
				continue
			}
			if a.fits(spanOf(runs[i:j]), window) {
				return i, j
			}
		}
	}
	return 0, 0
}

func usable(runs []*run) bool {
	for _, r := range runs {
		if r.file == nil {
			return false
		}
	}
	return true
}

func spanOf(runs []*run) format.Wall {
	low, high := runs[0].file.Trailer.Low, runs[0].file.Trailer.High
	for _, r := range runs[1:] {
		low, high = min(low, r.file.Trailer.Low), max(high, r.file.Trailer.High)
	}
	return high - low
}

// drop returns runs without those whose rows are all older than the horizon. Stamps rise with the
// marks, so a damaged run goes with the first one after it that does.
func drop(runs []*run, horizon format.Wall) []*run {
	for i := len(runs) - 1; i >= 0; i-- {
		if runs[i].file != nil && runs[i].file.Trailer.High < horizon {
			return runs[i+1:]
		}
	}
	return runs
}
