package format

// RunWriter makes a run block by block: the caller writes what its methods return, in order. Rows must
// come sorted. It keeps one fence per block in memory.
type RunWriter struct {
	head   RunHead
	fences []Fence
	tail   RunTrailer
	rows   RowPacker
	ids    idPacker
	block  [BlockSize]byte
}

// Begin starts a run and returns its head block. Every block returned is valid until the next call.
func (w *RunWriter) Begin(h RunHead) []byte {
	w.head, w.tail, w.fences = h, RunTrailer{}, w.fences[:0]
	w.rows.Reset()
	w.ids.begin(&h.IDs)
	h.Encode(w.block[:])
	return w.block[:]
}

// AddRow adds a row; when it opens a new block, the finished one is returned, else nil.
func (w *RunWriter) AddRow(r *Row) []byte {
	var full []byte
	if !w.rows.Add(r) {
		full = w.flush()
		w.rows.Add(r)
	}
	if w.rows.Len() == 1 {
		w.fences = append(w.fences, Fence{Partition: r.Partition, Base: r.Base})
	}
	w.count(r.Created)
	return full
}

// AddID adds an id row; when that fills a block, it is returned, else nil. The row fits the layout in the head, and
// spread is its Spread, which the caller has sorted by.
func (w *RunWriter) AddID(spread uint64, r *IDRow) []byte {
	if w.ids.rows == 0 {
		w.fences = append(w.fences, Fence{Partition: r.Partition, Hash: r.Hash, Spread: spread})
	}
	w.ids.add(spread, r)
	w.count(r.W)
	if w.ids.rows == w.ids.plan.limit {
		return w.flush()
	}
	return nil
}

func (w *RunWriter) count(at Wall) {
	if w.tail.Rows == 0 {
		w.tail.Low, w.tail.High = at, at
	}
	w.tail.Low, w.tail.High = min(w.tail.Low, at), max(w.tail.High, at)
	w.tail.Rows++
}

func (w *RunWriter) flush() []byte {
	w.tail.Blocks++
	block := w.block[:]
	if w.head.Kind == RunIDs {
		block = w.ids.encode()
	} else {
		w.rows.Encode(block)
		w.rows.Reset()
	}
	w.tail.Content = fenceSum(w.tail.Content, block[:4])
	return block
}

// Finish returns the rest of the file: the last block if there is one, the fences and the trailer.
func (w *RunWriter) Finish() []byte {
	var out []byte
	if w.rows.Len()+w.ids.rows > 0 {
		out = append(out, w.flush()...)
	}
	for from := 0; from < len(w.fences); from += FencesPerBlock {
		part := w.fences[from:min(len(w.fences), from+FencesPerBlock)]
		out = AppendFenceBlock(out, w.head.Kind, w.tail.FenceBlocks, part)
		w.tail.FenceBlocks++
	}
	out = appendZeros(out, BlockSize)
	w.tail.Encode(out[len(out)-BlockSize:])
	return out
}

// FindBlock returns the number of the block that holds the last key not above k, from the fences of a
// whole run; -1 when all are above.
func FindBlock(kind RunKind, fences []Fence, k Fence) int {
	low, high := 0, len(fences)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if fences[mid].above(kind, &k) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low - 1
}

func (f *Fence) above(kind RunKind, k *Fence) bool {
	switch {
	case kind == RunIDs && f.Spread != k.Spread:
		return f.Spread > k.Spread
	case f.Partition != k.Partition:
		return f.Partition > k.Partition
	case kind == RunRows:
		return f.Base > k.Base
	}
	_, a := hashHalves(&f.Hash)
	_, b := hashHalves(&k.Hash)
	return a > b
}
