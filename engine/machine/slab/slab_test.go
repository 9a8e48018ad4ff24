package slab

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"queen/engine/invariants"
)

// part is a row with padding inside, so that a codec that forgets a field or a copy that takes too few bytes shows.
type part struct {
	ID    uint64
	Small uint8
	Next  uint64
	Link  Handle
}

var partCodec = Codec[part]{
	Size: 21,
	Encode: func(dst []byte, p *part) {
		binary.LittleEndian.PutUint64(dst, p.ID)
		dst[8] = p.Small
		binary.LittleEndian.PutUint64(dst[9:], p.Next)
		binary.LittleEndian.PutUint32(dst[17:], uint32(p.Link))
	},
	Decode: func(src []byte, p *part) {
		p.ID = binary.LittleEndian.Uint64(src)
		p.Small = src[8]
		p.Next = binary.LittleEndian.Uint64(src[9:])
		p.Link = Handle(binary.LittleEndian.Uint32(src[17:]))
	},
}

func randomPart(rng *rand.Rand) part {
	return part{ID: rng.Uint64(), Small: uint8(rng.Uint32()), Next: rng.Uint64(), Link: Handle(rng.Uint32())}
}

func encoded(p part) string {
	b := make([]byte, partCodec.Size)
	partCodec.Encode(b, &p)
	return string(b)
}

// mustBreak runs f, which has to break an invariant.
func mustBreak(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if _, ok := recover().(*invariants.Violation); !ok {
			t.Errorf("%s: no broken invariant reported", what)
		}
	}()
	f()
}

// slabModel drives a slab beside a map and knows what each dirty set must hold.
type slabModel struct {
	*Slab[part]
	rng    *rand.Rand
	rows   map[Handle]part
	live   []Handle // in no order, for picking
	at     map[Handle]int
	dirty  map[Handle]bool
	marked map[Handle]bool
}

func newSlabModel(seed uint64) *slabModel {
	return &slabModel{Slab: New(partCodec), rng: rand.New(rand.NewPCG(seed, 1)), rows: map[Handle]part{},
		at: map[Handle]int{}, dirty: map[Handle]bool{}, marked: map[Handle]bool{}}
}

func (m *slabModel) soil(h Handle) { m.dirty[h], m.marked[h] = true, true }

func (m *slabModel) alloc(t *testing.T) {
	h, p := m.Alloc()
	if _, taken := m.rows[h]; taken || h == 0 {
		t.Fatalf("alloc gave %d, taken %v", h, taken)
	}
	if *p != (part{}) {
		t.Fatalf("alloc gave row %d with %+v in it", h, *p)
	}
	*p = randomPart(m.rng)
	m.rows[h], m.at[h] = *p, len(m.live)
	m.live = append(m.live, h)
	m.soil(h)
}

func (m *slabModel) pick() Handle { return m.live[m.rng.IntN(len(m.live))] }

func (m *slabModel) free() {
	h := m.pick()
	m.Free(h)
	i, last := m.at[h], m.live[len(m.live)-1]
	m.live[i], m.at[last] = last, i
	m.live = m.live[:len(m.live)-1]
	delete(m.rows, h)
	delete(m.at, h)
	m.soil(h)
}

func (m *slabModel) touch() {
	h := m.pick()
	p := m.Touch(h)
	*p = randomPart(m.rng)
	m.rows[h] = *p
	m.soil(h)
}

// step does one random change; growing below 0.5 the slab shrinks in the long run.
func (m *slabModel) step(t *testing.T, growing float64) {
	switch {
	case len(m.live) == 0 || m.rng.IntN(3) == 0 && m.rng.Float64() < growing:
		m.alloc(t)
	case m.rng.IntN(3) == 0 && m.rng.Float64() >= growing:
		m.free()
	default:
		m.touch()
	}
}

// check compares every row, the walk by Next, Live and Len with the model.
func (m *slabModel) check(t *testing.T) {
	t.Helper()
	if m.Len() != len(m.rows) {
		t.Fatalf("%d rows, want %d", m.Len(), len(m.rows))
	}
	n := 0
	for h := m.Next(0); h != 0; h = m.Next(h) {
		n++
		if want, ok := m.rows[h]; !ok || *m.Get(h) != want {
			t.Fatalf("row %d is %+v, want %+v (live %v)", h, *m.Get(h), want, ok)
		}
	}
	if n != len(m.rows) {
		t.Fatalf("the walk met %d rows, want %d", n, len(m.rows))
	}
	for h := range m.dirty {
		if _, ok := m.rows[h]; ok != m.Live(h) {
			t.Fatalf("row %d live %v, want %v", h, m.Live(h), ok)
		}
	}
}

// snapshot is what an image of this instant must hold: the delta with "" for freed rows, and the base.
func (m *slabModel) snapshot() (delta, base map[Handle]string) {
	delta, base = map[Handle]string{}, map[Handle]string{}
	for h, p := range m.rows {
		base[h] = encoded(p)
	}
	for h := range m.dirty {
		delta[h] = base[h]
	}
	m.dirty = map[Handle]bool{}
	return delta, base
}

// collect returns an Emit that stores rows and insists on handle order, and the map it fills. then runs after each
// row.
func collect(t *testing.T, then func()) (Emit, map[Handle]string) {
	got := map[Handle]string{}
	last := Handle(0)
	return func(h Handle, row []byte) error {
		if h <= last {
			return fmt.Errorf("row %d after row %d", h, last)
		}
		last = h
		got[h] = string(row)
		then()
		return nil
	}, got
}

func same(t *testing.T, what string, got, want map[Handle]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for h, w := range want {
		if g, ok := got[h]; !ok || g != w {
			t.Fatalf("%s: row %d is %x (there %v), want %x", what, h, g, ok, w)
		}
	}
}

func loadAll(t *testing.T, load func(h Handle, row []byte) error, rows map[Handle]string) {
	t.Helper()
	for h, row := range rows {
		if err := load(h, []byte(row)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSlabModel drives a slab over a chunk boundary beside a map, with digests and checkpoints in between. Apply goes
// on inside the emit callback, that is between any two rows that the writer takes: the images must be those of the
// freeze. A second slab fed with the images must end up the same, byte for byte and handle for handle.
func TestSlabModel(t *testing.T) {
	m := newSlabModel(1)
	replica := New(partCodec)
	for range chunkRows + 500 {
		m.alloc(t)
	}
	for round := range 6 {
		growing := []float64{0.5, 0.2, 0.8}[round%3]
		for range 3000 {
			m.step(t, growing)
		}
		m.check(t)
		checkMark(t, m)
		scope := Scope(round % 2)
		delta, base := m.snapshot()
		image := m.Freeze(scope)
		apply := func() { m.step(t, growing) }
		emit, got := collect(t, apply)
		if err := image.Delta(emit); err != nil {
			t.Fatal(err)
		}
		same(t, "delta", got, delta)
		if scope == Base {
			emit, got := collect(t, func() {
				if m.rng.IntN(8) == 0 {
					apply()
				}
			})
			if err := image.Base(emit); err != nil {
				t.Fatal(err)
			}
			same(t, "base", got, base)
		}
		image.Release()
		loadAll(t, replica.Load, delta)
		compareImages(t, replica, base)
	}
	if last := m.live[0]; last>>chunkShift == 0 && m.Next(chunkRows-1) == 0 {
		t.Fatal("the test never left the first chunk")
	}
}

// checkMark compares a digest walk with the model.
func checkMark(t *testing.T, m *slabModel) {
	t.Helper()
	want := map[Handle]string{}
	for h := range m.marked {
		want[h] = ""
		if p, ok := m.rows[h]; ok {
			want[h] = encoded(p)
		}
	}
	m.marked = map[Handle]bool{}
	emit, got := collect(t, func() {})
	m.Mark(func(h Handle, row []byte) {
		if err := emit(h, row); err != nil {
			t.Fatal(err)
		}
	})
	same(t, "mark", got, want)
	m.Mark(func(h Handle, _ []byte) { t.Fatalf("row %d emitted by a second mark", h) })
}

// compareImages wants the base image of a slab, and nothing dirty in it since it was only loaded.
func compareImages(t *testing.T, s *Slab[part], base map[Handle]string) {
	t.Helper()
	image := s.Freeze(Base)
	defer image.Release()
	if err := image.Delta(func(h Handle, _ []byte) error { return fmt.Errorf("row %d is dirty", h) }); err != nil {
		t.Fatalf("after load: %v", err)
	}
	emit, got := collect(t, func() {})
	if err := image.Base(emit); err != nil {
		t.Fatal(err)
	}
	same(t, "loaded image", got, base)
}

// TestSlabReplayFromTwoImages: replay of the same commands from an older and from a newer image ends in the same
// bytes.
func TestSlabReplayFromTwoImages(t *testing.T) {
	run := func(s *Slab[part], from, to int) {
		for i := from; i < to; i++ {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			h := Handle(rng.IntN(4000) + 1)
			switch {
			case rng.IntN(2) == 0:
				_, p := s.Alloc()
				*p = randomPart(rng)
			case !s.Live(h):
			case rng.IntN(2) == 0:
				s.Free(h)
			default:
				*s.Touch(h) = randomPart(rng)
			}
		}
	}
	baseOf := func(s *Slab[part]) map[Handle]string {
		image := s.Freeze(Base)
		defer image.Release()
		emit, got := collect(t, func() {})
		if err := image.Base(emit); err != nil {
			t.Fatal(err)
		}
		return got
	}
	s := New(partCodec)
	run(s, 0, 6000)
	older := baseOf(s)
	run(s, 6000, 9000)
	newer := baseOf(s)
	run(s, 9000, 12000)
	want := baseOf(s)
	for at, image := range map[int]map[Handle]string{6000: older, 9000: newer} {
		replica := New(partCodec)
		loadAll(t, replica.Load, image)
		run(replica, at, 12000)
		same(t, fmt.Sprintf("replay from %d", at), baseOf(replica), want)
	}
}

// TestSlabChunkBoundary: the handles around 65,536, and the lowest free one first.
func TestSlabChunkBoundary(t *testing.T) {
	s := New(partCodec)
	for want := Handle(1); want <= 2*chunkRows+2; want++ {
		h, p := s.Alloc()
		if h != want {
			t.Fatalf("alloc gave %d, want %d", h, want)
		}
		p.ID = uint64(h)
	}
	for _, h := range []Handle{1, 63, 64, chunkRows - 1, chunkRows, chunkRows + 1, 2*chunkRows - 1, 2 * chunkRows} {
		if s.Get(h).ID != uint64(h) {
			t.Errorf("row %d holds %d", h, s.Get(h).ID)
		}
	}
	for _, h := range []Handle{2 * chunkRows, chunkRows, chunkRows - 1, 70} {
		s.Free(h)
	}
	if got := s.Next(chunkRows - 2); got != chunkRows+1 {
		t.Errorf("next live row is %d, want %d", got, chunkRows+1)
	}
	for _, want := range []Handle{70, chunkRows - 1, chunkRows, 2 * chunkRows, 2*chunkRows + 3} {
		if h, p := s.Alloc(); h != want || p.ID != 0 {
			t.Errorf("alloc gave %d holding %d, want %d and zero", h, p.ID, want)
		}
	}
}

// TestSlabFreedRowsAreZero looks at the memory itself.
func TestSlabFreedRowsAreZero(t *testing.T) {
	s := New(partCodec)
	h, p := s.Alloc()
	memory := s.t.bytesAt(s.t.row(h))
	for i := range memory {
		memory[i] = 0xff // the padding as well
	}
	_ = p
	s.Free(h)
	for i, b := range memory {
		if b != 0 {
			t.Fatalf("byte %d of a freed row is %#x", i, b)
		}
	}
}

// TestSlabRefuses: misuse breaks an invariant, damaged images are errors, and a full slab says so.
func TestSlabRefuses(t *testing.T) {
	s := New(partCodec)
	h, _ := s.Alloc()
	s.Free(h)
	mustBreak(t, "free twice", func() { s.Free(h) })
	mustBreak(t, "free of none", func() { s.Free(0) })
	mustBreak(t, "free of what never was", func() { s.Free(HandleMax) })
	if s.Live(0) || s.Live(HandleMax) || s.Live(^Handle(0)) || s.Live(h) {
		t.Error("a handle that was never given out counts as live")
	}
	image := s.Freeze(Delta)
	mustBreak(t, "two images", func() { s.Freeze(Delta) })
	mustBreak(t, "base of a delta", func() { _ = image.Base(func(Handle, []byte) error { return nil }) })
	mustBreak(t, "load while frozen", func() { _ = s.Load(1, make([]byte, partCodec.Size)) })
	image.Release()
	mustBreak(t, "delta after release", func() { _ = image.Delta(func(Handle, []byte) error { return nil }) })
	for _, bad := range []struct {
		h    Handle
		size int
	}{{0, 21}, {HandleMax + 1, 21}, {1, 20}, {1, 22}, {0, 0}} {
		if err := s.Load(bad.h, make([]byte, bad.size)); err == nil {
			t.Errorf("load of %d bytes into row %d: no error", bad.size, bad.h)
		}
	}
	s.t.rowsMax = 4
	for range 3 {
		s.Alloc()
	}
	if h, p := s.Alloc(); h != 0 || p != nil {
		t.Errorf("alloc of a full slab gave %d", h)
	}
	for _, make := range []func(){
		func() { New(Codec[struct{ P *int }]{Size: 8}) }, func() { New(Codec[[2]string]{Size: 8}) },
		func() { New(Codec[struct{}]{Size: 8}) }, func() { New(Codec[part]{}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a row type that can not be a row was taken")
				}
			}()
			make()
		}()
	}
}

// TestSlabEmitError: an error of emit ends the walk and comes back.
func TestSlabEmitError(t *testing.T) {
	s := New(partCodec)
	for range 200 {
		s.Alloc()
	}
	for fail := range 3 {
		for base, walk := range []func(f *Frozen, e Emit) error{(*Frozen).Delta, (*Frozen).Base} {
			image := s.Freeze(Base)
			n := 0
			err := walk(image, func(h Handle, _ []byte) error {
				if n == fail {
					return fmt.Errorf("row %d", h)
				}
				n++
				return nil
			})
			if err == nil || n != fail {
				t.Errorf("walk %d: error %v after %d rows, want one after %d", base, err, n, fail)
			}
			image.Revert()
		}
	}
}

// TestSlabRevert: rows of an image that was not stored come again with the next one.
func TestSlabRevert(t *testing.T) {
	m := newSlabModel(3)
	for range 5000 {
		m.step(t, 0.7)
	}
	image := m.Freeze(Delta)
	emit, _ := collect(t, func() { m.step(t, 0.3) })
	if err := image.Delta(emit); err != nil {
		t.Fatal(err)
	}
	image.Revert()
	delta, _ := m.snapshot()
	second := m.Freeze(Delta)
	emit, got := collect(t, func() {})
	if err := second.Delta(emit); err != nil {
		t.Fatal(err)
	}
	second.Release()
	same(t, "delta after revert", got, delta)
}

// TestSlabGivesAsideBack: the rows copied aside are counted, and are gone after the last walk and after Release.
func TestSlabGivesAsideBack(t *testing.T) {
	s := New(partCodec)
	for range 10000 {
		s.Alloc()
	}
	image := s.Freeze(Base)
	before := s.Bytes()
	for h := Handle(1); h <= 10000; h++ {
		s.Touch(h)
	}
	if grown := s.Bytes() - before; grown < 10000*int64(s.t.stride) {
		t.Errorf("10000 rows copied aside count as %d bytes", grown)
	}
	if err := image.Base(func(Handle, []byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if left := image.asideBytes.Load(); left > 32<<10 {
		t.Errorf("%d bytes held aside after the last walk", left)
	}
	image.Release()
	if left := s.Bytes() - before; left > 32<<10 {
		t.Errorf("%d bytes held after release", left)
	}
}
