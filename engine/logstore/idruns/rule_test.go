package idruns

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"queen/engine/format"
	"queen/engine/vfs"
)

// TestRule pins which runs there are after each mark: replicas of different builds have to agree.
//
//	window is=N                    the longest window, in microseconds
//	marks n=N [apart=W] [ids=I]    N marks W apart with I rows each; the runs where there are fewer than before, and at the end
func TestRule(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		fs := vfs.NewMem()
		s := open(t, fs, nil, 0, 1<<20)
		defer s.Close()
		window := format.Wall(1000)
		m := Mark{W: 100_000}
		before := 0
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var n, rows int
			step := 10
			rows = 1
			switch d.Cmd {
			case "window":
				d.ScanArgs(t, "is", &n)
				window = format.Wall(n)
				return ""
			case "marks":
				d.ScanArgs(t, "n", &n)
				d.MaybeScanArgs(t, "apart", &step)
				d.MaybeScanArgs(t, "ids", &rows)
				var out strings.Builder
				for i := range n {
					m.Number++
					m.W += format.Wall(step)
					m.Horizon = m.W - window
					var ids []format.IDRow
					for k := range rows {
						ids = append(ids, format.IDRow{Partition: 69, Hash: format.IDHash{byte(k)}, Offset: format.Offset(m.Number), W: m.W})
					}
					if err := s.Add(m, Slice(ids)); err != nil {
						t.Fatal(err)
					}
					files := s.Files()
					if i < n-1 && len(files) > before || m.Number%ChunkGroup != 0 {
						before = len(files) // one more at the end, or nothing
						continue
					}
					before = len(files)
					fmt.Fprintf(&out, "%d:", m.Number)
					for _, f := range files {
						fmt.Fprintf(&out, " %d-%d", f.First, f.Last)
					}
					out.WriteByte('\n')
				}
				return out.String()
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}
