package rows

// Skip says that rows below next are not coming: they were reclaimed together with the files that held
// them. It goes before the first Recover and Add, and does nothing when next is not above Next.
func (x *Index) Skip(next uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if next > x.mem.next {
		x.mem = newMemory(next)
	}
}
