package runfile

// Source gives the rows of one sorted input, one per call into r, until ok is false. What r refers to
// is good until the next call.
type Source[R any] func(r *R) (ok bool, err error)

// Merger gives the rows of sorted sources in one order. Of equal rows that of the source named first
// comes first. It is used by one goroutine.
type Merger[R any] struct {
	sources []Source[R]
	less    func(a, b *R) bool
	rows    []R
	heap    []int // numbers of sources, the one with the next row on top
	taken   bool  // the row on top was given away
}

// NewMerger reads the first row of every source.
func NewMerger[R any](sources []Source[R], less func(a, b *R) bool) (*Merger[R], error) {
	m := &Merger[R]{sources: sources, less: less, rows: make([]R, len(sources))}
	for i := range sources {
		ok, err := sources[i](&m.rows[i])
		if err != nil {
			return nil, err
		}
		if ok {
			m.heap = append(m.heap, i)
			m.up()
		}
	}
	return m, nil
}

// Next returns the next row, good until the call after, and the number of its source; nil at the end.
func (m *Merger[R]) Next() (r *R, source int, err error) {
	if m.taken {
		m.taken = false
		i := m.heap[0]
		ok, err := m.sources[i](&m.rows[i])
		if err != nil {
			return nil, 0, err
		}
		if !ok {
			last := len(m.heap) - 1
			m.heap[0] = m.heap[last]
			m.heap = m.heap[:last]
		}
		m.down()
	}
	if len(m.heap) == 0 {
		return nil, 0, nil
	}
	m.taken = true
	return &m.rows[m.heap[0]], m.heap[0], nil
}

// before orders two sources by their rows, then by their numbers.
func (m *Merger[R]) before(x, y int) bool {
	return m.less(&m.rows[x], &m.rows[y]) || x < y && !m.less(&m.rows[y], &m.rows[x])
}

func (m *Merger[R]) up() {
	h := m.heap
	for i := len(h) - 1; i > 0; {
		p := (i - 1) / 2
		if !m.before(h[i], h[p]) {
			return
		}
		h[i], h[p] = h[p], h[i]
		i = p
	}
}

func (m *Merger[R]) down() {
	h := m.heap
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && m.before(h[c+1], h[c]) {
			c++
		}
		if !m.before(h[c], h[i]) {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

// Merge gives the rows of sorted sources to emit, as a Merger orders them.
func Merge[R any](sources []Source[R], less func(a, b *R) bool, emit func(source int, r *R) error) error {
	m, err := NewMerger(sources, less)
	if err != nil {
		return err
	}
	for {
		r, i, err := m.Next()
		if err != nil || r == nil {
			return err
		}
		if err := emit(i, r); err != nil {
			return err
		}
	}
}
