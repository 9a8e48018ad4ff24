package runfile

// Source gives the rows of one sorted input, one per call into r, until ok is false. What r refers to
// is good until the next call.
type Source[R any] func(r *R) (ok bool, err error)

// Merge gives the rows of sorted sources to emit in one order. Of equal rows that of the source named
// first comes first.
func Merge[R any](sources []Source[R], less func(a, b *R) bool, emit func(source int, r *R) error) error {
	rows := make([]R, len(sources))
	heap := make([]int, 0, len(sources))
	above := func(x, y int) bool { // x comes before y
		if less(&rows[x], &rows[y]) {
			return true
		}
		return x < y && !less(&rows[y], &rows[x])
	}
	for i := range sources {
		ok, err := sources[i](&rows[i])
		if err != nil {
			return err
		}
		if ok {
			heap = append(heap, i)
			up(heap, above)
		}
	}
	for len(heap) > 0 {
		i := heap[0]
		if err := emit(i, &rows[i]); err != nil {
			return err
		}
		ok, err := sources[i](&rows[i])
		if err != nil {
			return err
		}
		if !ok {
			last := len(heap) - 1
			heap[0] = heap[last]
			heap = heap[:last]
		}
		down(heap, above)
	}
	return nil
}

func up(heap []int, above func(x, y int) bool) {
	for i := len(heap) - 1; i > 0; {
		p := (i - 1) / 2
		if !above(heap[i], heap[p]) {
			return
		}
		heap[i], heap[p] = heap[p], heap[i]
		i = p
	}
}

func down(heap []int, above func(x, y int) bool) {
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(heap) {
			return
		}
		if c+1 < len(heap) && above(heap[c+1], heap[c]) {
			c++
		}
		if !above(heap[c], heap[i]) {
			return
		}
		heap[i], heap[c] = heap[c], heap[i]
		i = c
	}
}
