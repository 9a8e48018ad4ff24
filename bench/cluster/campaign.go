package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"queen/bench/internal/child"
	"queen/bench/internal/lossyfs"
	"queen/bench/internal/nodes"
	"queen/bench/internal/report"
)

// campaign is many runs: each kind of fault, pairs of them, with three and with five nodes. Each is a process of its own, so that
// one that hangs or dies takes none with it.
type campaign struct {
	on          bool
	parallel    int
	from, count int
	out         string
}

func (k *campaign) flags() {
	flag.BoolVar(&k.on, "campaign", false, "do a run for each kind of fault, and for pairs of them")
	flag.IntVar(&k.parallel, "parallel", 2, "runs of a campaign at a time")
	flag.IntVar(&k.from, "from", 0, "begin a campaign at this run")
	flag.IntVar(&k.count, "count", 0, "runs of a campaign; 0 is all")
	flag.StringVar(&k.out, "out", "", "file that the lines of a campaign are appended to")
}

// notPassed are the flags that a run of a campaign has its own values for, or none.
var notPassed = []string{"campaign", "parallel", "from", "count", "out", "binary", "faults", "nodes", "seed", "json", "broken", "failovers",
	"transfers", "each"}

// pairs are what is done together.
var pairs = []string{"kill+slow", "partition+clock", "pause+member", "power+oneway", "deaf+killany", "restart+slow", "kill+clock", "drain+killany",
	"transfer+pauseany", "powerall+clock", "minority+member", "flap+slow", "ring+kill", "mute+clock", "member+kill", "oneway+transfer"}

// fives are what is done to five nodes.
var fives = []string{"kill", "killany", "killall", "power", "powerall", "pause", "partition", "minority", "majority", "deaf", "mute", "oneway", "ring", "slow",
	"clock", "member", "drain", "restart", "transfer", "kill+killany", "ring+clock", "partition+killany", "power+pauseany", "member+killany", "deaf+slow"}

// planned is one run of a campaign.
type planned struct {
	number int
	faults string
	nodes  int
	seed   uint64
}

// plan is the whole campaign, always in the same order. Without a second binary there is no upgrade.
func (k *campaign) plan(o *options) (all []planned) {
	add := func(faults string, nodes int) {
		if o.other == "" && strings.Contains(faults, "upgrade") {
			return
		}
		all = append(all, planned{len(all), faults, nodes, o.seed + uint64(len(all))})
	}
	for _, kind := range nodes.Kinds() {
		if kind != "none" {
			add(kind, 3)
		}
	}
	for _, pair := range pairs {
		add(pair, 3)
	}
	for _, kind := range fives {
		add(kind, 5)
	}
	return all
}

// run does the runs and says how many failed.
func (k *campaign) run(o *options) (failed int, err error) {
	if k.parallel < 1 || o.broken != "" {
		return 0, errors.New("-campaign: -parallel is at least 1, and nothing is broken on purpose")
	}
	all := k.plan(o)
	if k.from < 0 || k.from >= len(all) || k.count < 0 {
		return 0, fmt.Errorf("-from %d -count %d: the campaign has the runs 0 to %d", k.from, k.count, len(all)-1)
	}
	lossyfs.Detach(o.dir) // of runs that were killed
	if all = all[k.from:]; k.count > 0 {
		all = all[:min(k.count, len(all))]
	}
	dir, err := report.TempDir(o.dir)
	if err != nil {
		return 0, err
	}
	if o.binary == "" {
		if o.binary, err = nodes.Build(filepath.Join(dir, "queen"), nodes.Kinds()); err != nil {
			return 0, err
		}
	}
	lines := io.Writer(os.Stdout)
	if k.out != "" {
		f, err := os.OpenFile(k.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		lines = io.MultiWriter(os.Stdout, f)
	}
	fmt.Fprintf(lines, "campaign of %s: %d runs of %v, %d at a time; logs are in %s\n", time.Now().UTC().Format(time.RFC3339), len(all), o.seconds,
		k.parallel, dir)
	t := k.runAll(all, dir, o, lines)
	fmt.Fprintf(lines, "%d runs, %d failed, %.0f operations acknowledged, %.0f faults, %.0f of them bit\n", len(all), t.failed, t.acked, t.faults, t.bit)
	if t.failed > 0 {
		return t.failed, nil
	}
	return 0, os.RemoveAll(dir)
}

// total is what runs came to together.
type total struct {
	failed             int
	acked, faults, bit float64
}

func (k *campaign) runAll(all []planned, dir string, o *options, lines io.Writer) (t total) {
	next := make(chan planned)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range k.parallel {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for p := range next {
				r, why := p.run(dir, o)
				mu.Lock()
				fmt.Fprint(lines, p.lines(o, r, why))
				if why != "" {
					t.failed++
				}
				t.acked, t.faults, t.bit = t.acked+value(r, "acknowledged"), t.faults+value(r, "faults"), t.bit+value(r, "faults that bit")
				mu.Unlock()
			}
		}()
	}
	for _, p := range all {
		next <- p
	}
	close(next)
	wg.Wait()
	return t
}

// beyond is how long a run may take beside its load before it is ended: longer than it gives itself, so that it says why.
const beyond = endWithin + 6*time.Minute

// run is one run, in a process of its own. why is "" when it went well.
func (p *planned) run(dir string, o *options) (r *report.Report, why string) {
	r = &report.Report{}
	self, err := os.Executable()
	if err != nil {
		return r, err.Error()
	}
	args := append([]string{"-json", "-binary", o.binary}, p.args(o)...)
	said := filepath.Join(dir, fmt.Sprintf("run%03d.log", p.number))
	log, err := os.Create(said)
	if err != nil {
		return r, err.Error()
	}
	defer log.Close()
	var out bytes.Buffer
	cmd := exec.Command(self, args...)
	cmd.Stdout, cmd.Stderr = &out, log
	process, err := child.Start(cmd)
	if err != nil {
		return r, err.Error()
	}
	select {
	case <-process.Ended():
	case <-time.After(o.seconds + beyond):
		process.Kill()
		lossyfs.Detach(o.dir)
		return r, fmt.Sprintf("it did not end; %s", said)
	}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		text, _ := os.ReadFile(said)
		return r, fmt.Sprintf("it came to no end: %.500s; %s", text[max(0, len(text)-500):], said)
	}
	if len(r.Violations) > 0 {
		return r, fmt.Sprintf("%d violations: %.500s; %s; %s", len(r.Violations), r.Violations[0], r.Conditions, said)
	}
	if code := process.ExitCode(); code != 0 {
		return r, fmt.Sprintf("exit code %d; %s", code, said)
	}
	return r, ""
}

func value(r *report.Report, name string) float64 {
	n, _ := r.Get(name)
	return n
}

// lines are what is told of a run: one that says how it went, and one for each fault that says what was done and what shows that it bit.
func (p *planned) lines(o *options, r *report.Report, why string) string {
	var terms []string
	for g := 1; g <= o.groups; g++ {
		terms = append(terms, fmt.Sprintf("+%.0f", value(r, fmt.Sprintf("new terms of raft group %d", g))))
	}
	verdict := "ok"
	if why != "" {
		verdict = "FAILED: " + strings.ReplaceAll(why, "\n", " | ") + "; again: " + p.again(o)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "run %d: %s, %d nodes, %d groups, %d tenants, seed %d: acknowledged %.0f, faults %.0f, bit %.0f, terms %s: %s\n", p.number, p.faults,
		p.nodes, o.groups, o.tenants, p.seed, value(r, "acknowledged"), value(r, "faults"), value(r, "faults that bit"), strings.Join(terms, " "), verdict)
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(n, "\n", " | "))
	}
	return b.String()
}

// again is the command that makes the run once more.
func (p *planned) again(o *options) string {
	return "go run ./bench/cluster " + strings.Join(p.args(o), " ")
}

// args are those of the run: its own and what the campaign was told.
func (p *planned) args(o *options) []string {
	args := []string{"-faults", p.faults, "-nodes", fmt.Sprint(p.nodes), "-seed", fmt.Sprint(p.seed)}
	flag.Visit(func(f *flag.Flag) {
		if !slices.Contains(notPassed, f.Name) {
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	return args
}
