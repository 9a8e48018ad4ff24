package rows

// linkJob links the rows of the oldest full chunk that is not linked.
type linkJob struct {
	m     memory // as it was; links of older chunks are there
	chunk *rowChunk
	first uint64 // number of its first row
}

// unlinked returns the next job, ok is false when there is none.
func (m *memory) unlinked() (j linkJob, ok bool) {
	// Chunks are linked in order, so the first without links is found from the end.
	full := int((m.next - m.first) / chunkRows)
	i := full
	for i > 0 && m.chunks[i-1].links == nil {
		i--
	}
	if i == full {
		return linkJob{}, false
	}
	return linkJob{m: *m, chunk: m.chunks[i], first: m.first + uint64(i)*chunkRows}, true
}

// do makes the links of the chunk. It reads rows without the lock: they do not change, nor do the
// links of older chunks.
func (j *linkJob) do() *[chunkRows]link {
	links := new([chunkRows]link)
	at := func(n uint64) *link {
		if n >= j.first {
			return &links[n-j.first]
		}
		i := n - j.m.first
		return &j.m.chunks[i/chunkRows].links[i%chunkRows]
	}
	for i := range links {
		n := j.first + uint64(i)
		prev := j.chunk.rows[i].prev
		if n < j.m.floor || !j.m.holds(prev) {
			continue
		}
		links[i] = link{jump: uint32(n - j.over(prev, at)), height: at(prev).height + 1}
	}
	return links
}

// over is where a row whose previous one is prev jumps to: as far as two equal jumps from prev lead,
// else to prev.
func (j *linkJob) over(prev uint64, at func(n uint64) *link) uint64 {
	p := at(prev)
	a := prev - uint64(p.jump)
	if !j.m.holds(a) {
		return prev
	}
	la := at(a)
	b := a - uint64(la.jump)
	if !j.m.holds(b) || p.height-la.height != la.height-at(b).height {
		return prev
	}
	return b
}
