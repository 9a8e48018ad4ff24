package place

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"queen/bench/internal/nodes"
	"queen/bench/internal/report"
)

// Trial says what a cluster goes through. Without nodes there is no cluster.
type Trial struct {
	Nodes, Groups     int
	For, Every, Lasts time.Duration
	Faults            string
}

// lanes is how many rounds run at once: while one is judged the other has load on the nodes.
const lanes = 2

// Flags are the flags of a trial.
func (t *Trial) Flags(f *flag.FlagSet) {
	f.IntVar(&t.Nodes, "nodes", 0, "nodes of a cluster that has faults done to it; 0 is one node that is killed")
	f.IntVar(&t.Groups, "groups", 1, "raft groups of the cluster")
	f.DurationVar(&t.For, "for", 20*time.Minute, "how long faults are done to the cluster; the rounds that run then are finished")
	f.DurationVar(&t.Every, "fault-every", 10*time.Second, "time from one fault to the next")
	f.DurationVar(&t.Lasts, "fault-lasts", 3*time.Second, "how long a fault lasts")
	f.StringVar(&t.Faults, "faults", "kill,killany,pause,partition,minority,deaf,mute,oneway,flap,killall,transfer,restart",
		"kinds of faults, which come in random order and equally often")
}

// Check refuses what would do nothing: flags of a trial without a cluster, and with one the flags named, which are about one node.
func (t *Trial) Check(f *flag.FlagSet, ofOne ...string) error {
	ofMany := []string{"groups", "for", "fault-every", "fault-lasts", "faults"}
	var errs []error
	f.Visit(func(g *flag.Flag) {
		switch {
		case t.Nodes == 0 && slices.Contains(ofMany, g.Name):
			errs = append(errs, fmt.Errorf("--%s needs --nodes", g.Name))
		case t.Nodes != 0 && slices.Contains(ofOne, g.Name):
			errs = append(errs, fmt.Errorf("--%s is about one node: leave --nodes out", g.Name))
		}
	})
	switch {
	case t.Nodes == 0:
	case t.Nodes < 3:
		errs = append(errs, fmt.Errorf("--nodes %d: at least 3, or the first fault stops everything", t.Nodes))
	case t.Groups < 1:
		errs = append(errs, fmt.Errorf("--groups %d: at least 1", t.Groups))
	case t.Lasts <= 0 || t.Every <= t.Lasts || t.For < t.Every:
		errs = append(errs, fmt.Errorf("--for %v --fault-every %v --fault-lasts %v: a fault lasts more than 0 and is over when the next "+
			"one comes, and there is room for one", t.For, t.Every, t.Lasts))
	case len(t.kinds()) == 0:
		errs = append(errs, errors.New("--faults names none"))
	}
	return errors.Join(errs...)
}

func (t *Trial) kinds() []string {
	return strings.FieldsFunc(t.Faults, func(r rune) bool { return r == ',' })
}

// String is the trial as one of the conditions of a run.
func (t *Trial) String() string {
	return fmt.Sprintf("%d nodes, %d raft groups, a fault every %v for %v, of %v each", t.Nodes, t.Groups, t.Every, t.For, t.Lasts)
}

// deck is the kinds in random order, again and again, enough for the whole trial.
func (t *Trial) deck(seed uint64) []string {
	rng := rand.New(rand.NewPCG(seed, 77))
	var all []string
	for len(all) <= int(t.For/t.Every) {
		kinds := t.kinds()
		rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		all = append(all, kinds...)
	}
	return all
}

// victim is what faults are done to. Plague rests between the end of a fault and the next one.
type victim interface {
	Plague(ctx context.Context, kinds []string, every, lasts time.Duration, seed uint64, out io.Writer) ([]nodes.Done, error)
}

// run does faults to a cluster, and meanwhile rounds, which count from 1. Those that run when the last fault is over are finished
// without one, so that each is judged to its end.
func (t *Trial) run(ctx context.Context, c victim, seed uint64, out io.Writer,
	round func(ctx context.Context, number int) error) (done []nodes.Done, err error) {
	over := make(chan struct{})
	all := []func(context.Context) error{func(ctx context.Context) (err error) {
		defer close(over)
		plagued, cancel := context.WithTimeout(ctx, t.For)
		defer cancel()
		done, err = c.Plague(plagued, t.deck(seed), t.Every-t.Lasts, t.Lasts, seed, out)
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return nil // its time was over
		}
		return err
	}}
	var number atomic.Int64
	for range lanes {
		all = append(all, func(ctx context.Context) error {
			for {
				select {
				case <-over:
					return ctx.Err()
				default:
				}
				n := int(number.Add(1))
				if err := round(ctx, n); err != nil {
					return fmt.Errorf("round %d: %w", n, err)
				}
			}
		})
	}
	err = Together(ctx, all...)
	return done, err
}

// Setting is what a trial is made in.
type Setting struct {
	Binary string // of the nodes; "" builds one
	Dir    string // must be empty
	Seed   uint64
	// Limit is how long what runs when the faults are over may take.
	Limit time.Duration
	// Out gets a line for every fault and every violation, with the time in front.
	Out        io.Writer
	Violations *report.Violations
	Report     *report.Report
}

// Round is one round: its number, the place of its clients, and where to tell of it.
type Round struct {
	Number int
	Place  Place
	Out    io.Writer
}

// OnCluster starts a cluster and makes the trial on it: rounds while faults are done. What was done and how long it took goes into the report;
// that a node does not end as it should is a violation. An error means that a round could not go on.
func (t *Trial) OnCluster(ctx context.Context, s Setting, round func(context.Context, Round) error) error {
	s.Report.Conditions += ", " + t.String()
	out := newTimed(s.Out)
	s.Violations.Out = out
	c, err := t.open(s.Binary, s.Dir)
	if err != nil {
		return err
	}
	defer c.end()
	ctx, cancel := context.WithTimeout(ctx, t.For+s.Limit)
	defer cancel()
	start := time.Now()
	done, err := t.run(ctx, c, s.Seed, out, func(ctx context.Context, number int) error {
		return round(ctx, Round{number, c.Round(number), out})
	})
	sum(done, s.Report)
	s.Report.Add("time", time.Since(start).Seconds(), "s")
	if err != nil {
		return fmt.Errorf("%w\nthe nodes said:\n%s", err, c.LogTail())
	}
	if err := c.Stop(); err != nil {
		s.Violations.Add("%v", err)
	}
	return nil
}

// sum notes how many faults were done and how many of them are proved to have bitten, of each kind.
func sum(done []nodes.Done, out *report.Report) {
	bit, of, bitOf := 0, map[string]int{}, map[string]int{}
	for _, d := range done {
		of[d.Kind]++
		if d.Bit != "" {
			bit++
			bitOf[d.Kind]++
		}
	}
	out.Add("faults", float64(len(done)), "")
	out.Add("faults that bit", float64(bit), "")
	kinds := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	for _, k := range kinds {
		out.Add(fmt.Sprintf("... %s, of which bit %d", k, bitOf[k]), float64(of[k]), "")
	}
}
