package place

import (
	"context"
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"queen/bench/internal/nodes"
	"queen/bench/internal/report"
)

// quiet is a cluster that is done no harm, for as long as the test wants. It notes what it was asked for.
type quiet struct {
	enough, over chan struct{}
	kinds        []string
}

func newQuiet() *quiet { return &quiet{enough: make(chan struct{}), over: make(chan struct{})} }

func (q *quiet) Plague(ctx context.Context, kinds []string, _, _ time.Duration, _ uint64, _ io.Writer) ([]nodes.Done, error) {
	defer close(q.over)
	q.kinds = kinds
	select {
	case <-q.enough:
		return []nodes.Done{{Kind: "kill"}}, context.DeadlineExceeded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestRounds runs rounds until the trial is over. Each has a number of its own, others go on beside the first, and that one, which
// is not over when the trial is, is finished.
func TestRounds(t *testing.T) {
	trial := Trial{Nodes: 3, For: time.Hour, Every: time.Minute, Lasts: time.Second, Faults: "kill,pause,flap"}
	c := newQuiet()
	var mu sync.Mutex
	var begun, finished []int
	done, err := trial.run(context.Background(), c, 1, io.Discard, func(ctx context.Context, n int) error {
		mu.Lock()
		if begun = append(begun, n); len(begun) == 4 {
			close(c.enough)
		}
		mu.Unlock()
		if n == 1 {
			<-c.over
		}
		mu.Lock()
		defer mu.Unlock()
		finished = append(finished, n)
		return ctx.Err()
	})
	if err != nil || len(done) != 1 {
		t.Fatalf("%v, %v", done, err)
	}
	slices.Sort(begun)
	slices.Sort(finished)
	if len(begun) < 4 || !slices.Equal(begun, finished) || begun[0] != 1 || begun[len(begun)-1] != len(begun) {
		t.Errorf("begun %v, finished %v", begun, finished)
	}
	if len(c.kinds) <= int(trial.For/trial.Every) {
		t.Fatalf("%d faults can not last the trial", len(c.kinds))
	}
	for at := 0; at < len(c.kinds); at += 3 {
		hand := slices.Sorted(slices.Values(c.kinds[at : at+3]))
		if strings.Join(hand, ",") != "flap,kill,pause" {
			t.Fatalf("faults %d to %d are %v, want each kind once", at+1, at+3, hand)
		}
	}
	if slices.Equal(c.kinds[:3], c.kinds[3:6]) && slices.Equal(c.kinds[:3], c.kinds[6:9]) && slices.Equal(c.kinds[:3], c.kinds[9:12]) {
		t.Errorf("faults come in one order: %v", c.kinds)
	}
}

// TestRoundFails ends everything with the error of one round.
func TestRoundFails(t *testing.T) {
	trial := Trial{Nodes: 3, For: time.Hour, Every: time.Second, Lasts: time.Second, Faults: "kill"}
	broken := errors.New("broken")
	_, err := trial.run(context.Background(), newQuiet(), 1, io.Discard, func(ctx context.Context, n int) error {
		if n == 1 {
			return broken
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "round 1") {
		t.Error(err)
	}
}

func TestSum(t *testing.T) {
	var r report.Report
	sum([]nodes.Done{{Kind: "kill", Bit: "a new term"}, {Kind: "pause"}, {Kind: "kill"}}, &r)
	for name, want := range map[string]float64{"faults": 3, "faults that bit": 1, "... kill, of which bit 1": 2, "... pause, of which bit 0": 1} {
		if n, ok := r.Get(name); !ok || n != want {
			t.Errorf("%s: %v, want %v", name, n, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for args, want := range map[string]string{
		"":                                   "",
		"--kills 3":                          "",
		"--nodes 3 --for 1m":                 "",
		"--nodes 3 --kills 3":                "--kills is about one node",
		"--for 1m":                           "--for needs --nodes",
		"--faults kill":                      "--faults needs --nodes",
		"--nodes 1":                          "at least 3",
		"--nodes 3 --for 1s":                 "room for one",
		"--nodes 3 --fault-lasts 0s":         "lasts more than 0",
		"--nodes 3 --fault-lasts 10s":        "is over when the next",
		"--nodes 3 --groups 0":               "at least 1",
		"--nodes 3 --faults ,":               "names none",
		"--nodes 5 --groups 2 --faults kill": "",
	} {
		var trial Trial
		f := flag.NewFlagSet("x", flag.ContinueOnError)
		f.Int("kills", 1, "")
		trial.Flags(f)
		if err := f.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		err := trial.Check(f, "kills")
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
