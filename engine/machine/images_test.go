package machine

import (
	"testing"

	"queen/engine/machine/slab"
)

// images is what a checkpoint writer keeps: a base and the deltas after it, and the chunks of ids.
type images struct {
	t    testing.TB
	rows []imageRow
}

type imageRow struct {
	s   Section
	key uint64
	row string
}

func newImages(t testing.TB) *images { return &images{t: t} }

// take writes a delta, or a base that replaces everything before.
func (im *images) take(m *Machine, base bool) {
	s := m.Freeze(base)
	defer s.Release()
	var delta, whole []imageRow
	into := func(dst *[]imageRow) EmitRow {
		return func(s Section, key uint64, row []byte) error {
			*dst = append(*dst, imageRow{s, key, string(row)})
			return nil
		}
	}
	if err := s.Delta(into(&delta)); err != nil {
		im.t.Fatal(err)
	}
	im.rows = append(im.rows, delta...)
	if base {
		if err := s.Base(into(&whole)); err != nil {
			im.t.Fatal(err)
		}
		im.rows = whole
	}
}

// load builds a machine from the images; the ids of the last chunks come from m, as from their runs.
func (im *images) load(m *Machine) *Machine {
	n := New(Options{Group: m.group})
	for _, r := range im.rows {
		if err := n.Load(r.s, r.key, []byte(r.row)); err != nil {
			im.t.Fatalf("load %s %d: %v", r.s, r.key, err)
		}
	}
	if err := n.Finish(); err != nil {
		im.t.Fatal(err)
	}
	for _, c := range m.Chunks() {
		var ids []slab.ID
		if err := c.Each(func(id slab.ID) error {
			ids = append(ids, id)
			return nil
		}); err != nil {
			im.t.Fatal(err)
		}
		n.LoadChunk(c.Mark(), ids)
	}
	if err := checkState(n); err != nil {
		im.t.Fatalf("after loading: %v", err)
	}
	if n.Digest() != m.Digest() {
		im.t.Fatal("the loaded state has another digest")
	}
	return n
}
