package runfile

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"queen/engine/format"
	"queen/engine/vfs"
)

// idRow makes a row whose spread rises with n.
func idRow(n uint64) format.IDRow {
	row := format.IDRow{Partition: 65, Offset: format.Offset(n), W: 9}
	binary.BigEndian.PutUint64(row.Hash[:], n<<40^row.Spread())
	return row
}

func idLayout(rows int) format.IDLayout {
	var b format.IDBounds
	for n := range uint64(rows) {
		r := idRow(n)
		b.Add(&r)
	}
	return b.Layout()
}

func writeIDs(fs vfs.FS, name string, rows int) (Info, error) {
	w, err := Create(fs, "/d", name, format.RunHead{Kind: format.RunIDs, Group: 1, Number: 3, First: 2, Last: 3, IDs: idLayout(rows)})
	if err != nil {
		return Info{}, err
	}
	for n := range uint64(rows) {
		r := idRow(n)
		if err := w.AddID(r.Spread(), &r); err != nil {
			w.Abort()
			return Info{}, err
		}
	}
	return w.Finish()
}

// TestOrderOfCalls: what is done to the disk for one run, as text to be reviewed.
func TestOrderOfCalls(t *testing.T) {
	datadriven.RunTest(t, "testdata/calls", func(t *testing.T, d *datadriven.TestData) string {
		mem := vfs.NewMem()
		if err := vfs.MkdirAllSync(mem, "/d"); err != nil {
			t.Fatal(err)
		}
		var rows int
		d.ScanArgs(t, "rows", &rows)
		var out strings.Builder
		fs := vfs.NewLogging(mem, false, func(line string) { out.WriteString(line + "\n") })
		if _, err := writeIDs(fs, "x.run", rows); err != nil {
			t.Fatal(err)
		}
		return out.String()
	})
}

// TestFile: what was written is read, by block and by scan, and its sum is the file's.
func TestFile(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	for _, rows := range []int{0, 1, 130, 20_000} {
		info, err := writeIDs(fs, "x.run", rows)
		if err != nil {
			t.Fatal(err)
		}
		if sum, err := Sum(fs, "/d", "x.run"); err != nil || sum != info.Sum || int(info.Rows) != rows {
			t.Fatal(sum, info, err)
		}
		f, err := Open(fs, "/d", "x.run", IDs, NewCache[format.IDBlock](0))
		if err != nil {
			t.Fatal(err)
		}
		scan, n := f.Scan(0), uint64(0)
		for i := range f.Blocks() {
			b, err := f.Block(i)
			if err != nil {
				t.Fatal(err)
			}
			s, err := scan.Next()
			if err != nil || scan.Block() != i || s.Len() != b.Len() {
				t.Fatal(i, err)
			}
			for k := range b.Len() {
				var x, y format.IDRow
				b.At(k, &x)
				s.At(k, &y)
				if x != idRow(n) || y != x {
					t.Fatalf("row %d: %+v %+v", n, x, y)
				}
				if f.Find(format.IDFence(65, x.Hash)) != i {
					t.Fatalf("row %d is not found in block %d", n, i)
				}
				n++
			}
		}
		if s, err := scan.Next(); s != nil || err != nil || int(n) != rows {
			t.Fatal(s, err, n)
		}
		f.Release()
	}
	var e *Error
	if _, err := Open(fs, "/d", "x.run", Rows, NewCache[format.RowBlock](0)); !errors.As(err, &e) || e.File != "x.run" {
		t.Fatal(err)
	}
	if _, err := Open(fs, "/d", "y.run", IDs, NewCache[format.IDBlock](0)); !errors.As(err, &e) || e.File != "y.run" {
		t.Fatal(err)
	}
}

// TestMerge: any number of sources give their rows in order, equal ones in the order of the sources.
func TestMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		type row struct{ key, source int }
		var want []row
		var sources []Source[row]
		for i := range rng.IntN(9) {
			var rows []row
			for range rng.IntN(20) {
				rows = append(rows, row{rng.IntN(30), i})
			}
			slices.SortFunc(rows, func(a, b row) int { return a.key - b.key })
			want = append(want, rows...)
			sources = append(sources, func(r *row) (bool, error) {
				if len(rows) == 0 {
					return false, nil
				}
				*r, rows = rows[0], rows[1:]
				return true, nil
			})
		}
		slices.SortStableFunc(want, func(a, b row) int { return a.key - b.key })
		var got []row
		err := Merge(sources, func(a, b *row) bool { return a.key < b.key }, func(i int, r *row) error {
			if r.source != i {
				t.Fatalf("source %d of %+v", i, r)
			}
			got = append(got, *r)
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Fatal(err, got, want)
		}
	}
}

// TestCache: it keeps what is used, within its bound.
func TestCache(t *testing.T) {
	c := NewCache[int](64 * blockCost)
	for i := range 10_000 {
		c.put(cacheKey{1, uint32(i)}, &i)
		if hot := c.get(cacheKey{1, 0}); hot == nil || *hot != 0 {
			t.Fatalf("the block that is always used is gone after %d", i)
		}
	}
	held := 0
	for i := range uint32(10_000) {
		if v := c.get(cacheKey{1, i}); v != nil {
			if held++; *v != int(i) {
				t.Fatal(*v, i)
			}
		}
	}
	if held != 64 {
		t.Fatalf("%d blocks held", held)
	}
	if c.get(cacheKey{2, 0}) != nil {
		t.Fatal("a block of another file")
	}
}
