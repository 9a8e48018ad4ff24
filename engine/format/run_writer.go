package format

// RunWriter makes a run block by block: the caller writes what its methods return, in order. Rows must
// come sorted. It keeps one fence per block in memory.
type RunWriter struct {
	head   RunHead
	fences []Fence
	tail   RunTrailer
	rows   RowPacker
	ids    IDPacker
	block  [BlockSize]byte
}

// Begin starts a run and returns its head block. Every block returned is valid until the next call.
func (w *RunWriter) Begin(h RunHead) []byte {
	w.head, w.tail, w.fences = h, RunTrailer{}, w.fences[:0]
	w.rows.Reset()
	w.ids.Reset()
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

// AddID adds an id row, as AddRow does.
func (w *RunWriter) AddID(r *IDRow) []byte {
	var full []byte
	if !w.ids.Add(r) {
		full = w.flush()
		w.ids.Add(r)
	}
	if w.ids.Len() == 1 {
		w.fences = append(w.fences, Fence{Partition: r.Partition, Hash: r.Hash})
	}
	w.count(r.W)
	return full
}

func (w *RunWriter) count(at Wall) {
	if w.tail.Rows == 0 {
		w.tail.Low, w.tail.High = at, at
	}
	w.tail.Low, w.tail.High = min(w.tail.Low, at), max(w.tail.High, at)
	w.tail.Rows++
}

func (w *RunWriter) flush() []byte {
	if w.head.Kind == RunRows {
		w.rows.Encode(w.block[:])
		w.rows.Reset()
	} else {
		w.ids.Encode(w.block[:])
		w.ids.Reset()
	}
	w.tail.Blocks++
	w.tail.Content = fenceSum(w.tail.Content, w.block[:4])
	return w.block[:]
}

// Finish returns the rest of the file: the last block if there is one, the fences and the trailer.
func (w *RunWriter) Finish() []byte {
	var out []byte
	if w.rows.Len()+w.ids.Len() > 0 {
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
	case f.Partition != k.Partition:
		return f.Partition > k.Partition
	case kind == RunRows:
		return f.Base > k.Base
	}
	return hashLess(&k.Hash, &f.Hash)
}
