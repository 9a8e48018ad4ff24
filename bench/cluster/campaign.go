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
	"syscall"
	"time"

	"queen/bench/internal/child"
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
	if k.from < 0 || k.from >= len(all) {
		return 0, fmt.Errorf("-from %d: the campaign has the runs 0 to %d", k.from, len(all)-1)
	}
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
	fmt.Fprintf(lines, "campaign of %s: %d runs of %v, %d at a time\n", time.Now().UTC().Format(time.RFC3339), len(all), o.seconds, k.parallel)
	failed, acked, bit := k.runAll(all, dir, o, lines)
	fmt.Fprintf(lines, "%d runs, %d failed, %.0f operations acknowledged, %.0f faults that bit\n", len(all), failed, acked, bit)
	if failed > 0 {
		return failed, nil
	}
	return 0, os.RemoveAll(dir)
}

func (k *campaign) runAll(all []planned, dir string, o *options, lines io.Writer) (failed int, acked, bit float64) {
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
				fmt.Fprintln(lines, p.line(o, r, why))
				if why != "" {
					failed++
				}
				acked, bit = acked+value(r, "acknowledged"), bit+value(r, "faults that bit")
				mu.Unlock()
			}
		}()
	}
	for _, p := range all {
		next <- p
	}
	close(next)
	wg.Wait()
	return failed, acked, bit
}

// beyond is how long a run may take beside its load: to start, to let everything be consumed, to judge.
const beyond = 8 * time.Minute

// run is one run, in a process of its own. why is "" when it went well.
func (p *planned) run(dir string, o *options) (r *report.Report, why string) {
	r = &report.Report{}
	self, err := os.Executable()
	if err != nil {
		return r, err.Error()
	}
	args := []string{"-json", "-binary", o.binary, "-faults", p.faults, "-nodes", fmt.Sprint(p.nodes), "-seed", fmt.Sprint(p.seed)}
	flag.Visit(func(f *flag.Flag) {
		if !slices.Contains(notPassed, f.Name) {
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
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
		detach(o.dir)
		return r, fmt.Sprintf("it did not end; %s", said)
	}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		text, _ := os.ReadFile(said)
		return r, fmt.Sprintf("it came to no end: %.500s; %s", text[max(0, len(text)-500):], said)
	}
	if len(r.Violations) > 0 {
		return r, fmt.Sprintf("%d violations: %.500s; %s; %s", len(r.Violations), r.Violations[0], r.Conditions, said)
	}
	os.Remove(said)
	return r, ""
}

// detach takes away what a killed run left mounted. Runs below other directories are not touched; one that goes on below this one, at the
// same time, is known by a file system that answers.
func detach(dir string) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return
	}
	text, _ := os.ReadFile("/proc/mounts")
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[1], dir+"/") {
			continue
		}
		if _, err := os.Stat(fields[1]); errors.Is(err, syscall.ENOTCONN) {
			_ = syscall.Unmount(fields[1], syscall.MNT_DETACH)
		}
	}
}

func value(r *report.Report, name string) float64 {
	n, _ := r.Get(name)
	return n
}

// line is what is told of a run.
func (p *planned) line(o *options, r *report.Report, why string) string {
	var terms []string
	for g := 1; g <= o.groups; g++ {
		terms = append(terms, fmt.Sprintf("+%.0f", value(r, fmt.Sprintf("new terms of raft group %d", g))))
	}
	verdict := "ok"
	if why != "" {
		verdict = "FAILED: " + strings.ReplaceAll(why, "\n", " | ")
	}
	return fmt.Sprintf("run %d: %s, %d nodes, %d groups, seed %d: acknowledged %.0f, faults %.0f, bit %.0f, terms %s: %s", p.number, p.faults, p.nodes,
		o.groups, p.seed, value(r, "acknowledged"), value(r, "faults"), value(r, "faults that bit"), strings.Join(terms, " "), verdict)
}
