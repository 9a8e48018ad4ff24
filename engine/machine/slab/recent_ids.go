package slab

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"

	"queen/engine/invariants"
)

const (
	// RecentChunks is how many closed chunks RecentIDs holds beside the open one.
	RecentChunks = 8

	idLoad   = 5                 // rows per bucket of the index: one line of memory for most misses
	idBlock  = 1024              // rows per block
	idHandle = uint64(1)<<31 - 1 // row numbers modulo this, plus 1, are handles of the index
)

// ID is one message id that a caller gave, with where it went. Hash is the keyed hash of the transactionId. Index,
// Ordinal and W are place and time of the entry that stored the message: ids of one Index have one W.
type ID struct {
	PID     uint64
	Hash    [16]byte
	Offset  uint64
	Index   uint64
	Ordinal uint32
	W       int64
}

// RecentIDs is the exact table of the ids of the last eight closed chunks and the open one. Every push with an id
// asks it. It is not part of any digest; at open it is loaded chunk by chunk, oldest first.
//
// Rows lie in chunks, in the order of adding, 40 bytes each; one index over all of them holds their numbers. Closing
// a chunk drops the oldest one as a whole: its slots stay in the index, are recognised as dead by their number, and
// are taken by later rows, so that no push pays for expiry.
//
// INVARIANT: of several rows with one key the index holds the newest, which decides (TestRecentIDsModel).
type RecentIDs struct {
	index  *Index
	seed   uint64
	window []idWindow // oldest first; the last is the open chunk
	oldest uint64     // number of the first row held
	next   uint64     // number of the next row
	warmed uint64
}

type idWindow struct {
	chunk   *IDChunk
	indexed int // rows of the chunk that the index holds
}

// IDChunk is the ids of one chunk. A closed one never changes: one goroutine, any, may read it, also after it was
// dropped.
type IDChunk struct {
	mark   uint64
	first  uint64 // number of row 0
	len    int
	blocks []*[idBlock]idRow
	places []idPlace // one per entry, so that index and W are stored once for a batch
}

type idRow struct {
	pid, lo, hi, offset uint64
	place, ordinal      uint32
}

type idPlace struct {
	index uint64
	w     int64
}

// NewRecentIDs returns an empty table. The seed spreads the slots: it may be any number.
func NewRecentIDs(seed uint64) *RecentIDs {
	r := &RecentIDs{seed: seed, window: []idWindow{{chunk: new(IDChunk)}}}
	r.index = r.newIndex()
	return r
}

func (r *RecentIDs) newIndex() *Index {
	x := NewIndex(r.seed)
	x.load = idLoad
	x.dead = func(h Handle) bool {
		_, ok := r.number(h)
		return !ok
	}
	return x
}

// number turns a handle of the index into the number of a row held; ok is false if that row was dropped.
func (r *RecentIDs) number(h Handle) (n uint64, ok bool) {
	age := (uint64(h) - 1 + idHandle - r.oldest%idHandle) % idHandle
	return r.oldest + age, age < r.next-r.oldest
}

func (r *RecentIDs) windowOf(n uint64) *idWindow {
	i := len(r.window) - 1
	for r.window[i].chunk.first > n {
		i--
	}
	return &r.window[i]
}

func (r *RecentIDs) hash(pid, lo, hi uint64) uint64 {
	a, b := bits.Mul64(lo^r.seed^0x9e3779b97f4a7c15, hi^pid^0xd6e8feb86659fd93)
	a, b = bits.Mul64(a^pid, b^0xa0761d6478bd642f)
	return a ^ b
}

func (r *RecentIDs) slot(hash, pid, lo, hi uint64) *uint64 {
	return r.index.find(tagOf(hash), func(h Handle) bool {
		n, ok := r.number(h)
		if !ok {
			return false
		}
		c := r.windowOf(n).chunk
		row := c.row(int(n - c.first))
		return row.pid == pid && row.lo == lo && row.hi == hi
	})
}

func (c *IDChunk) row(i int) *idRow { return &c.blocks[i/idBlock][i%idBlock] }

func (c *IDChunk) id(i int) ID {
	row := c.row(i)
	p := c.places[row.place]
	id := ID{PID: row.pid, Offset: row.offset, Index: p.index, Ordinal: row.ordinal, W: p.w}
	binary.LittleEndian.PutUint64(id.Hash[:8], row.lo)
	binary.LittleEndian.PutUint64(id.Hash[8:], row.hi)
	return id
}

func halves(hash *[16]byte) (lo, hi uint64) {
	return binary.LittleEndian.Uint64(hash[:8]), binary.LittleEndian.Uint64(hash[8:])
}

// Warm reads ahead for the Finds and Adds of a batch of ids, of which only PID and Hash are looked at: their cache
// misses then overlap instead of following one another, which halves the cost from about eight ids on. It changes no
// answer.
func (r *RecentIDs) Warm(ids []ID) {
	sum := uint64(0)
	for i := range ids {
		lo, hi := halves(&ids[i].Hash)
		sum += r.index.primary.at(r.index.bucketOf(tagOf(r.hash(ids[i].PID, lo, hi))))[0]
	}
	r.warmed = sum // so that the reads are not optimised away
}

// Find returns the newest row of (pid, hash) among the chunks held.
func (r *RecentIDs) Find(pid uint64, hash [16]byte) (ID, bool) {
	lo, hi := halves(&hash)
	s := r.slot(r.hash(pid, lo, hi), pid, lo, hi)
	if s == nil {
		return ID{}, false
	}
	n, _ := r.number(Handle(uint32(*s)))
	c := r.windowOf(n).chunk
	return c.id(int(n - c.first)), true
}

// Add puts a row into the open chunk. It is the newest of its key from now on. Rows come in the order of their
// entries.
func (r *RecentIDs) Add(id ID) {
	invariants.Check(r.next-r.oldest < idHandle, "slab: two thousand million recent ids")
	open := &r.window[len(r.window)-1]
	row := open.chunk.add(id)
	r.next++
	r.place(r.hash(row.pid, row.lo, row.hi), row, r.next-1, open)
}

// place puts row number n, which lies in w, into the index: the newest of its key from now on.
func (r *RecentIDs) place(hash uint64, row *idRow, n uint64, w *idWindow) {
	h := Handle(n%idHandle) + 1
	w.indexed++
	if s := r.slot(hash, row.pid, row.lo, row.hi); s != nil {
		old, _ := r.number(Handle(uint32(*s)))
		r.windowOf(old).indexed--
		*s = uint64(tagOf(hash))<<32 | uint64(h)
		return
	}
	r.index.Insert(hash, h)
}

func (c *IDChunk) add(id ID) *idRow {
	if k := len(c.places); k == 0 || c.places[k-1] != (idPlace{id.Index, id.W}) {
		c.places = append(c.places, idPlace{id.Index, id.W})
	}
	if c.len == len(c.blocks)*idBlock {
		c.blocks = append(c.blocks, new([idBlock]idRow))
	}
	lo, hi := halves(&id.Hash)
	place := uint32(len(c.places) - 1)
	row := c.row(c.len)
	*row = idRow{pid: id.PID, lo: lo, hi: hi, offset: id.Offset, place: place, ordinal: id.Ordinal}
	c.len++
	return row
}

// Close ends the open chunk under the number of its mark, begins the next and, if more than RecentChunks are closed,
// drops the oldest, all in constant time. It returns the closed chunk for the writer of its id run.
func (r *RecentIDs) Close(mark uint64) *IDChunk {
	closed := r.window[len(r.window)-1].chunk
	closed.mark = mark
	r.window = append(r.window, idWindow{chunk: &IDChunk{first: r.next}})
	if len(r.window) > RecentChunks+1 {
		r.index.rows -= r.window[0].indexed
		r.window = append(r.window[:0], r.window[1:]...)
		r.oldest = r.window[0].chunk.first
	}
	return closed
}

// Forget drops closed chunks, the oldest first, as long as over says that nobody will ask for their rows any more, and
// gives back the memory of the index that this leaves idle. It returns the number of rows dropped.
func (r *RecentIDs) Forget(over func(c *IDChunk) bool) (rows int) {
	keep := 0
	for keep < len(r.window)-1 && over(r.window[keep].chunk) {
		rows += r.window[keep].chunk.len
		r.index.rows -= r.window[keep].indexed
		keep++
	}
	r.window = slices.Delete(r.window, 0, keep)
	r.oldest = r.window[0].chunk.first
	if r.index.rows < int(r.index.primary.used)*idLoad/idShrink {
		r.reindex()
	}
	return rows
}

// idShrink is how many times larger the index may be than its rows need before Forget makes it anew.
const idShrink = 4

// reindex makes the index anew from the rows held.
func (r *RecentIDs) reindex() {
	r.index = r.newIndex()
	for i := range r.window {
		w := &r.window[i]
		w.indexed = 0
		for k := range w.chunk.len {
			row := w.chunk.row(k)
			r.place(r.hash(row.pid, row.lo, row.hi), row, w.chunk.first+uint64(k), w)
		}
	}
}

// LoadChunk adds the rows of a stored chunk, in any order, and closes it. Load the chunks in the order of their
// marks, before any Add. It sorts the slice.
func (r *RecentIDs) LoadChunk(mark uint64, rows []ID) {
	slices.SortFunc(rows, func(a, b ID) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	for _, id := range rows {
		r.Add(id)
	}
	r.Close(mark)
}

// Closed returns the closed chunks held, oldest first.
func (r *RecentIDs) Closed() []*IDChunk {
	closed := make([]*IDChunk, 0, RecentChunks)
	for _, w := range r.window[:len(r.window)-1] {
		closed = append(closed, w.chunk)
	}
	return closed
}

// Mark returns the number of the mark that closed the chunk.
func (c *IDChunk) Mark() uint64 { return c.mark }

// Len returns the number of rows.
func (c *IDChunk) Len() int { return c.len }

// Newest returns the W of the newest row, 0 when there is none.
func (c *IDChunk) Newest() int64 {
	if len(c.places) == 0 {
		return 0
	}
	return c.places[len(c.places)-1].w
}

// Row returns row i, in the order of adding.
func (c *IDChunk) Row(i int) ID { return c.id(i) }

// Touch brings row i into the processor's cache; what it returns means nothing.
func (c *IDChunk) Touch(i int) uint64 {
	row := c.row(i)
	return row.pid ^ uint64(row.ordinal)
}

// Each gives every row to emit in the order of adding, which is that of (Index, Ordinal). An error ends the walk and is
// returned.
func (c *IDChunk) Each(emit func(id ID) error) error {
	for i := range c.len {
		if err := emit(c.id(i)); err != nil {
			return err
		}
	}
	return nil
}

// Len returns the number of rows held, those that a newer row of the same key hides included.
func (r *RecentIDs) Len() int { return int(r.next - r.oldest) }

// Bytes returns the memory held, in bytes.
func (r *RecentIDs) Bytes() int64 {
	n := r.index.Bytes()
	for _, w := range r.window {
		n += int64(len(w.chunk.blocks))*int64(unsafe.Sizeof([idBlock]idRow{})+8) + int64(cap(w.chunk.places))*16
	}
	return n
}
