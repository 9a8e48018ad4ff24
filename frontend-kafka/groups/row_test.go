package groups

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
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
		again, err := g.encode()
		require.NoError(t, err)
		require.Equal(t, string(want), string(again), name)
	}
}

// Goal: long rows are compressed and come back.
func TestLongRow(t *testing.T) {
	row := rowText{Generation: 7, ProtocolType: "consumer"}
	for i := range 500 {
		row.Members = append(row.Members, rowMember{ID: fmt.Sprint("member ", i), Assignment: bytes.Repeat([]byte{byte(i)}, 100)})
	}
	b, err := appendRow(&row)
	require.NoError(t, err)
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
		once, err := g.encode()
		if err != nil {
			t.Fatal(err)
		}
		again := &group{m: r.Manager, key: key("g")}
		again.reset()
		if err := again.decode(once); err != nil {
			t.Fatalf("written and not readable: %v", err)
		}
		if twice, err := again.encode(); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s\n%s, %v", once, twice, err)
		}
	})
}

// Goal: a row is not written that nobody could read again, however little is left of it when it is compressed: the assignment that
// it is about is refused, and the group goes on, here and in a later life.
func TestRowThatNobodyCouldRead(t *testing.T) {
	r := newRig(t, nil)
	a := r.client("range")
	r.stable(a)
	a.protocols[0].Metadata = []byte("more")
	require.Zero(t, a.join().joined.ErrorCode)
	require.Zero(t, r.assign(a, nil))
	a.protocols[0].Metadata = []byte("and more")
	require.Zero(t, a.join().joined.ErrorCode)
	require.Equal(t, kerr.GroupMaxSizeReached.Code, r.assign(a, make([]byte, rowTextMax*3/4)))
	require.Equal(t, kerr.RebalanceInProgress.Code, a.heartbeat())
	require.Zero(t, a.join().joined.ErrorCode)
	require.Zero(t, r.assign(a, []byte("little")))
	r.restart()
	require.Zero(t, a.heartbeat())

	// What is just not too long is read.
	row := rowText{Members: []rowMember{{ID: "a", Assignment: make([]byte, rowTextMax/4*3-300)}}}
	b, err := appendRow(&row)
	require.NoError(t, err)
	got, err := parseRow(b)
	require.NoError(t, err)
	require.Len(t, got.Members[0].Assignment, len(row.Members[0].Assignment))
}

// assign has the only member of a group tell its assignment.
func (r *rig) assign(c *client, assignment []byte) (code int16) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 5, "g", c.id, c.generation
	req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: c.id, MemberAssignment: assignment}}
	r.Sync(r.t.Context(), key("g"), req, func(resp *kmsg.SyncGroupResponse) { code = resp.ErrorCode })
	return code
}

// Goal: ids that are no text are refused, since a row would not keep them: two of them would be one there, and no row has one
// member twice. What a client calls itself is no reason to refuse it, wherever its name is cut.
func TestIDsAreText(t *testing.T) {
	r := newRig(t, nil)
	r.topics.set("t", 1)
	for _, bad := range []string{"\xff", "a\xc3"} {
		require.Equal(t, kerr.InvalidRequest.Code, r.staticClient(bad, "range").join().joined.ErrorCode)
		m := r.modern(bad, "t")
		require.Equal(t, kerr.InvalidRequest.Code, m.beat())
		m.id, m.instance = "m", &bad
		require.Equal(t, kerr.InvalidRequest.Code, m.beat())
	}
	require.Empty(t, r.store.rows)
	for _, name := range []string{"\xff\xfe", strings.Repeat("x", textMax-1) + "\u00e9"} {
		id := r.newID(name)
		require.True(t, utf8.ValidString(id), "%q", id)
		require.LessOrEqual(t, len(id), 2*textMax)
	}
}
