package slab

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

type namesModel struct {
	*Names
	rng    *rand.Rand
	names  map[Ref]string
	live   []Ref
	dirty  map[Handle]bool
	marked map[Handle]bool
}

func newNamesModel(seed uint64) *namesModel {
	return &namesModel{Names: NewNames(), rng: rand.New(rand.NewPCG(seed, 2)), names: map[Ref]string{},
		dirty: map[Handle]bool{}, marked: map[Handle]bool{}}
}

func (m *namesModel) soil(r Ref) { m.dirty[Handle(r)], m.marked[Handle(r)] = true, true }

func (m *namesModel) put(t *testing.T) {
	length := m.rng.IntN(40)
	if m.rng.IntN(10) == 0 {
		length = m.rng.IntN(NameBytesMax + 1)
	}
	name := make([]byte, length)
	for i := range name {
		name[i] = byte(m.rng.Uint32())
	}
	r, err := m.Put(name)
	if _, taken := m.names[r]; err != nil || taken || r == 0 {
		t.Fatalf("put gave %#x, %v, taken %v", r, err, taken)
	}
	m.names[r] = string(name)
	m.live = append(m.live, r)
	m.soil(r)
}

func (m *namesModel) free() {
	i := m.rng.IntN(len(m.live))
	r := m.live[i]
	m.live[i] = m.live[len(m.live)-1]
	m.live = m.live[:len(m.live)-1]
	m.Free(r)
	delete(m.names, r)
	m.soil(r)
}

func (m *namesModel) step(t *testing.T) {
	if len(m.live) == 0 || m.rng.IntN(2) == 0 {
		m.put(t)
		return
	}
	m.free()
}

func cell(name string) string {
	return string([]byte{byte(len(name)), byte(len(name) >> 8)}) + name
}

func (m *namesModel) snapshot() (delta, base map[Handle]string) {
	delta, base = map[Handle]string{}, map[Handle]string{}
	for r, name := range m.names {
		base[Handle(r)] = cell(name)
	}
	for h := range m.dirty {
		delta[h] = base[h]
	}
	m.dirty = map[Handle]bool{}
	return delta, base
}

func (m *namesModel) check(t *testing.T) {
	t.Helper()
	if m.Len() != len(m.names) {
		t.Fatalf("%d names, want %d", m.Len(), len(m.names))
	}
	for r, want := range m.names {
		if !m.Live(r) || string(m.Get(r)) != want {
			t.Fatalf("name %#x is %q (live %v), want %q", r, m.Get(r), m.Live(r), want)
		}
	}
}

// TestNamesModel drives names of all lengths beside a map, with digests and images taken while names come and go, and
// a second arena fed with the images, which must give out the same references afterwards.
func TestNamesModel(t *testing.T) {
	m := newNamesModel(1)
	replica := NewNames()
	for round := range 6 {
		for range 4000 {
			m.step(t)
		}
		m.check(t)
		wantMark := map[Handle]string{}
		for h := range m.marked {
			wantMark[h] = ""
			if name, ok := m.names[Ref(h)]; ok {
				wantMark[h] = cell(name)
			}
		}
		m.marked = map[Handle]bool{}
		emit, got := collect(t, func() {})
		m.Mark(func(h Handle, row []byte) {
			if err := emit(h, row); err != nil {
				t.Fatal(err)
			}
		})
		same(t, "mark", got, wantMark)

		delta, base := m.snapshot()
		image := m.Freeze(Scope(round % 2))
		emit, got = collect(t, func() { m.step(t) })
		if err := image.Delta(emit); err != nil {
			t.Fatal(err)
		}
		same(t, "delta", got, delta)
		if round%2 == 1 {
			emit, got = collect(t, func() { m.step(t) })
			if err := image.Base(emit); err != nil {
				t.Fatal(err)
			}
			same(t, "base", got, base)
		}
		image.Release()
		loadAll(t, replica.Load, delta)
		frozen := replica.Freeze(Base)
		emit, got = collect(t, func() {})
		if err := frozen.Base(emit); err != nil {
			t.Fatal(err)
		}
		frozen.Release()
		same(t, "loaded image", got, base)
		if replica.Len() != len(base) {
			t.Fatalf("loaded %d names, want %d", replica.Len(), len(base))
		}
	}
	delta, _ := m.snapshot()
	loadAll(t, replica.Load, delta)
	for length := range NameBytesMax + 1 {
		a, err1 := m.Put(make([]byte, length))
		b, err2 := replica.Put(make([]byte, length))
		if a != b || err1 != nil || err2 != nil {
			t.Fatalf("%d bytes: references %#x and %#x (%v, %v)", length, a, b, err1, err2)
		}
	}
}

// TestNamesLengths: every length keeps its bytes, and neighbours do not disturb it.
func TestNamesLengths(t *testing.T) {
	n := NewNames()
	var refs []Ref
	for length := range NameBytesMax + 1 {
		r, err := n.Put(bytes.Repeat([]byte{byte(length)}, length))
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, r)
	}
	for length, r := range refs {
		got := n.Get(r)
		if !bytes.Equal(got, bytes.Repeat([]byte{byte(length)}, length)) || cap(got) != length {
			t.Fatalf("%d bytes: got %d with room for %d", length, len(got), cap(got))
		}
	}
	if _, err := n.Put(make([]byte, NameBytesMax+1)); !errors.Is(err, ErrNameTooLong) {
		t.Errorf("a name too long: %v", err)
	}
	n.classes[1].rowsMax = 1 << 4
	var err error
	for i := 0; i < 20 && err == nil; i++ {
		_, err = n.Put([]byte("abc"))
	}
	if !errors.Is(err, ErrNamesFull) {
		t.Errorf("a full class: %v", err)
	}
	if n.Live(0) || n.Live(^Ref(0)) || n.Live(3<<refClassBits|5000) {
		t.Error("a reference that was never given out counts as live")
	}
	mustBreak(t, "free of none", func() { n.Free(0) })
	mustBreak(t, "free of no class", func() { n.Free(^Ref(0)) })
	n.Free(refs[30])
	mustBreak(t, "free twice", func() { n.Free(refs[30]) })
}

// TestNamesLoadRefuses: rows that do not fit their reference; and a row loaded over a longer one leaves nothing of
// it.
func TestNamesLoadRefuses(t *testing.T) {
	n := NewNames()
	for _, bad := range []struct {
		h   Handle
		row string
	}{
		{0, cell("")}, {1, cell("a")}, {1 << refClassBits, cell("a")}, {2<<refClassBits | 1, cell("a")},
		{1<<refClassBits | 1, cell("abcdefg")}, {1<<refClassBits | 1, cell("abc")[:4]}, {1<<refClassBits | 1, "\x01"},
		{58<<refClassBits | 1, cell(string(make([]byte, 455)))}, {58<<refClassBits | 1, ""},
	} {
		if err := n.Load(bad.h, []byte(bad.row)); err == nil || n.Len() != 0 {
			t.Errorf("load of %q into %#x: no error", bad.row, bad.h)
		}
	}
	const h = 1<<refClassBits | 5
	for _, name := range []string{"abcdef", "", "x"} {
		if err := n.Load(h, []byte(cell(name))); err != nil || string(n.Get(h)) != name || n.Len() != 1 {
			t.Fatalf("load of %q: %q, %v", name, n.Get(h), err)
		}
	}
	if memory := n.classes[1].bytesAt(n.classes[1].row(5)); string(memory) != "\x01\x00x\x00\x00\x00\x00\x00" {
		t.Errorf("the cell holds %q", memory)
	}
}

// TestNamesOverhead holds the cost of names of mixed lengths to the promise: under seven bytes each on top of their
// bytes.
func TestNamesOverhead(t *testing.T) {
	n, rng := NewNames(), rand.New(rand.NewPCG(1, 1))
	total := int64(0)
	const count = 400000
	for range count {
		name := make([]byte, 16+rng.IntN(32))
		total += int64(len(name))
		if _, err := n.Put(name); err != nil {
			t.Fatal(err)
		}
	}
	over := float64(n.Bytes()-total) / count
	t.Logf("%.2f bytes per name on top of %.1f", over, float64(total)/count)
	if over > 7.5 {
		t.Errorf("%.2f bytes per name on top of its bytes", over)
	}
}

// FuzzNamesLoad: no image row makes Load panic, and what it takes it gives back.
func FuzzNamesLoad(f *testing.F) {
	f.Add(uint32(1<<refClassBits|1), []byte{1, 0, 'x'})
	f.Add(uint32(1<<refClassBits|1), []byte{0, 0})
	f.Add(uint32(2<<refClassBits|70000), []byte("\x08\x00abcdefgh"))
	f.Add(uint32(2<<refClassBits|1), []byte{9, 0, 'x'})
	f.Add(uint32(57<<refClassBits|9), append([]byte{0xbf, 1}, make([]byte, 447)...))
	f.Add(uint32(58<<refClassBits|9), append([]byte{0xc6, 1}, make([]byte, 454)...))
	f.Add(uint32(0), []byte{})
	f.Add(^uint32(0), []byte{1})
	f.Fuzz(func(t *testing.T, h uint32, row []byte) {
		n := NewNames()
		if err := n.Load(Handle(h), row); err != nil {
			if n.Len() != 0 {
				t.Fatalf("refused, and yet held: %v", err)
			}
			return
		}
		if (len(row) != 0) != n.Live(Ref(h)) || len(row) != 0 && cell(string(n.Get(Ref(h)))) != string(row) {
			t.Fatalf("loaded %x", row)
		}
	})
}
