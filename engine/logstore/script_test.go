package logstore

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"queen/engine/format"
	"queen/engine/vfs"
)

// scriptRun is a store under a script. Its file system prints every call that changes something.
type scriptRun struct {
	t     *testing.T
	mem   *vfs.Mem
	o     Options
	s     *Store
	calls struct {
		sync.Mutex
		lines []string
	}
}

// TestScripts runs testdata/*.txt. Commands:
//
//	open                                      open the store
//	append group=1 from=1 n=2 size=100 term=1 [vote] [commit=2] [outcome] [floor=1]
//	fill [floor]                              append entries until the segment rolls
//	reclaim segment=1 · close-index segment=1
//	close · die · power-cut                   clean stop; the process ends; so does what was not flushed
//	state                                     what the store holds
//
// The output of all but state is the calls on the file system, in order: the order of writes and flushes
// is reviewed as text.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, file string) {
		run := &scriptRun{t: t, mem: vfs.NewMem()}
		defer func() {
			if run.s != nil {
				_ = run.s.Close()
			}
		}()
		datadriven.RunTest(t, file, run.do)
	})
}

func (x *scriptRun) log(line string) {
	x.calls.Lock()
	defer x.calls.Unlock()
	x.calls.lines = append(x.calls.lines, strings.ReplaceAll(line, "/log/", ""))
}

func (x *scriptRun) do(t *testing.T, d *datadriven.TestData) string {
	var err error
	text := ""
	switch d.Cmd {
	case "open":
		x.o = testOptions(vfs.NewLogging(x.mem, false, x.log))
		x.o.SegmentBytes, x.o.SaverBytes, x.o.BeaconEvery = 64<<10, 4096, time.Nanosecond
		x.s, err = Open(x.o)
	case "append":
		err = x.append(d)
	case "fill":
		for n, group := len(x.s.Segments()), 1; len(x.s.Segments()) == n && err == nil; {
			st, _ := x.s.Replica(format.RaftGroup(group), 1)
			e := entry(st.Last+1, 1, encoded(10, 3500, 1))
			v := &Save{Group: format.RaftGroup(group), Replica: 1, Entries: []Entry{e}}
			if d.HasArg("floor") {
				v.Floor, v.Commit = st.Last, st.Last
			}
			err = x.s.Append(v)
		}
	case "reclaim", "close-index":
		var segment int
		d.ScanArgs(t, "segment", &segment)
		if d.Cmd == "reclaim" {
			err = x.s.Reclaim(uint32(segment))
		} else {
			err = x.s.MarkClosed(uint32(segment))
		}
	case "close":
		err = x.s.Close()
		x.s = nil
	case "die":
		settle(t, x.s)
		x.s = nil
	case "power-cut":
		settle(t, x.s)
		x.mem, x.s = x.mem.Crash(vfs.DropUnsynced()), nil
	case "state":
		text = x.state()
	default:
		t.Fatalf("unknown command %s", d.Cmd)
	}
	if x.s != nil {
		settle(t, x.s)
	}
	x.calls.Lock()
	defer x.calls.Unlock()
	for _, line := range x.calls.lines {
		text += line + "\n"
	}
	x.calls.lines = nil
	if err != nil {
		text += "error: " + err.Error() + "\n"
	}
	return text
}

func (x *scriptRun) append(d *datadriven.TestData) error {
	group, from, n, size, term, commit, floor := 1, 0, 0, 100, 1, 0, 0
	for name, v := range map[string]*int{
		"group": &group, "from": &from, "n": &n, "size": &size, "term": &term, "commit": &commit, "floor": &floor,
	} {
		if d.HasArg(name) {
			d.ScanArgs(x.t, name, v)
		}
	}
	v := &Save{Group: format.RaftGroup(group), Replica: 1, Commit: format.Index(commit), Floor: format.Index(floor)}
	if d.HasArg("vote") {
		v.State = &HardState{Term: format.Term(term), Vote: 1}
	}
	for i := range n {
		v.Entries = append(v.Entries, entry(format.Index(from+i), format.Term(term), encoded(10, size, uint64(from+i))))
	}
	if d.HasArg("outcome") {
		v.Outcomes = []Outcome{outcomeFor(format.Index(from), format.Term(term))}
	}
	return x.s.Append(v)
}

func (x *scriptRun) state() string {
	var b strings.Builder
	for _, r := range x.s.Replicas() {
		fmt.Fprintf(&b, "group %d: entries [%d, %d] term %d vote %d commit %d floor %d\n",
			r.Group, r.First, r.Last, r.State.Term, r.State.Vote, r.Commit, r.Floor)
	}
	for _, in := range x.s.Segments() {
		fmt.Fprintf(&b, "segment %d: used %d of %d sealed %v closed %v\n", in.Segment, in.Used, in.Bytes, in.Sealed, in.Closed)
		for _, g := range in.Groups {
			fmt.Fprintf(&b, "  group %d: entries %v outcomes %v cut %d\n", g.Group, g.Entries, g.Outcomes, g.Cut)
		}
	}
	return b.String()
}
