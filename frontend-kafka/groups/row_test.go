package groups

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// Goal: rows of every kind keep their bytes, and what was written once stays readable. Method: golden files, loaded by a
// coordinator that writes the same bytes again.
func TestGoldenRows(t *testing.T) {
	classic := newRig(t, nil)
	a, b := classic.client("range", "sticky"), classic.staticClient("i", "range")
	classic.stable(a, b)
	modern := newRig(t, nil)
	modern.topics.set("t", 4)
	c, d := modern.modern("a", "t"), modern.modern("b", "t")
	d.instance, d.regex, d.assignor = kmsg.StringPtr("i"), kmsg.StringPtr("t.*"), kmsg.StringPtr("range")
	require.Zero(t, c.beat())
	require.Zero(t, c.obey().ping())
	require.Zero(t, d.beat())
	require.Zero(t, c.ping())
	empty := newRig(t, nil)
	e := empty.client("range")
	empty.stable(e)
	require.Zero(t, e.leave())
	for name, r := range map[string]*rig{"classic": classic, "consumer": modern, "empty": empty} {
		path := filepath.Join("testdata", name+".row")
		row := r.store.rows[key("g")].value
		if *rewrite {
			require.NoError(t, os.WriteFile(path, row, 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), string(row), name)
		g := &group{m: newRig(t, nil).Manager, key: key("g")}
		g.reset()
		require.NoError(t, g.decode(want))
		require.Equal(t, string(want), string(g.encode()), name)
	}
}

// Goal: long rows are compressed and come back.
func TestLongRow(t *testing.T) {
	row := rowText{Generation: 7, ProtocolType: "consumer"}
	for i := range 500 {
		row.Members = append(row.Members, rowMember{ID: fmt.Sprint("member ", i), Assignment: bytes.Repeat([]byte{byte(i)}, 100)})
	}
	b := appendRow(&row)
	require.Equal(t, byte(rowZstd), b[1])
	require.Less(t, len(b), 20_000)
	got, err := parseRow(b)
	require.NoError(t, err)
	require.Equal(t, row, got)
}

// Goal: damaged rows are refused by name.
func TestRowRefuses(t *testing.T) {
	for name, b := range map[string]string{
		"nothing": "", "one byte": "\x01", "a later version": "\x02\x00{}", "an unknown form": "\x01\x02{}", "no text": "\x01\x00",
		"not a frame": "\x01\x01{}", "one member twice": "\x01\x00" + `{"members":[{"id":"a"},{"id":"a"}]}`,
		"no member id": "\x01\x00" + `{"members":[{}]}`, "one instance twice": "\x01\x00" + `{"members":[{"id":"a","instance":"i"},{"id":"b","instance":"i"}]}`,
	} {
		_, err := parseRow([]byte(b))
		require.ErrorIs(t, err, errRow, name)
	}
}

// FuzzRow: no row ends the process, and what is read is written again as it was read.
func FuzzRow(f *testing.F) {
	for _, name := range []string{"classic", "consumer", "empty"} {
		b, err := os.ReadFile(filepath.Join("testdata", name+".row"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newRig(t, nil)
		g := &group{m: r.Manager, key: key("g")}
		g.reset()
		if g.decode(b) != nil {
			return
		}
		once := g.encode()
		again := &group{m: r.Manager, key: key("g")}
		again.reset()
		if err := again.decode(once); err != nil {
			t.Fatalf("written and not readable: %v", err)
		}
		if !bytes.Equal(once, again.encode()) {
			t.Fatalf("%s\n%s", once, again.encode())
		}
	})
}
