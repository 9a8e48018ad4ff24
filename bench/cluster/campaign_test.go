package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/bench/internal/nodes"
	"queen/bench/internal/report"
)

// runEnv has the test's binary be a run of a campaign: it says what stands there, and exits with 1 if a violation is in it.
const runEnv = "CLUSTER_TEST_RUN"

func TestMain(m *testing.M) {
	says := os.Getenv(runEnv)
	if says == "" {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, strings.Join(os.Args[1:], " "))
	fmt.Print(says)
	if strings.Contains(says, "violations") {
		os.Exit(1)
	}
}

// TestPlan: a campaign has each kind, at least 60 runs, some of five nodes, and each run's faults exist.
func TestPlan(t *testing.T) {
	all := (&campaign{}).plan(&options{other: "x", seed: 7})
	five, kinds := 0, map[string]bool{}
	for i, p := range all {
		require.Equal(t, i, p.number)
		require.Equal(t, 7+uint64(i), p.seed)
		require.NoError(t, nodes.CheckKinds((&options{faults: p.faults}).kinds()))
		kinds[p.faults] = true
		if p.nodes == 5 {
			five++
		}
	}
	for _, kind := range nodes.Kinds() {
		require.Equal(t, kind != "none", kinds[kind], kind)
	}
	require.Greater(t, five, 10)
	without := (&campaign{}).plan(&options{})
	require.Less(t, len(without), len(all), "without another binary there is no upgrade")
	require.GreaterOrEqual(t, len(without), 60)
}

// TestCampaign: a part of a campaign has the runs of the whole, a line for each and its faults, and counts those that failed, whose logs stay.
func TestCampaign(t *testing.T) {
	passed := report.Report{Program: "cluster", Notes: []string{"kill: kill -9 of node 2; group 1: term 1 -> 2"}}
	passed.Add("acknowledged", 6000, "ops")
	passed.Add("faults", 3, "")
	passed.Add("faults that bit", 2, "")
	passed.Add("new terms of raft group 1", 4, "")
	failed := passed
	failed.Violate("offset 7 is lost")
	for _, c := range []struct {
		name  string
		says  any
		fails bool
		want  string
	}{
		{"passed", passed, false, "acknowledged 6000, faults 3, bit 2, terms +4 +0: ok\n  kill: kill -9 of node 2; group 1: term 1 -> 2\n"},
		{"failed", failed, true, "terms +4 +0: FAILED: 1 violations: offset 7 is lost"},
		{"fell", "what is no report", true, "FAILED: it came to no end"},
	} {
		text, err := json.Marshal(c.says)
		require.NoError(t, err)
		t.Setenv(runEnv, string(text))
		dir := t.TempDir()
		out := filepath.Join(dir, "lines")
		k := campaign{parallel: 2, from: 4, count: 3, out: out}
		o := &options{binary: "x", dir: dir, seed: 5000, groups: 2, tenants: 3, seconds: time.Minute}
		plan := k.plan(o)
		count, err := k.run(o)
		require.NoError(t, err)
		lines, err := os.ReadFile(out)
		require.NoError(t, err)
		require.Equal(t, 3, strings.Count(string(lines), c.want), "%s: %s", c.name, lines)
		for _, p := range plan[4:7] {
			again := fmt.Sprintf("-faults %s -nodes 3 -seed %d", p.faults, p.seed)
			require.Contains(t, string(lines), fmt.Sprintf("run %d: %s, 3 nodes, 2 groups, 3 tenants, seed %d: ", p.number, p.faults, p.seed), c.name)
			logs, err := filepath.Glob(filepath.Join(dir, "data-*", fmt.Sprintf("run%03d.log", p.number)))
			require.NoError(t, err)
			if !c.fails {
				require.Empty(t, logs)
				continue
			}
			require.Contains(t, string(lines), "again: go run ./bench/cluster "+again, c.name)
			require.Len(t, logs, 1, c.name)
			said, err := os.ReadFile(logs[0])
			require.NoError(t, err)
			require.Contains(t, string(said), again)
		}
		if c.fails {
			require.Equal(t, 3, count, c.name)
			continue
		}
		require.Zero(t, count, c.name)
		require.Contains(t, string(lines), "3 runs, 0 failed, 18000 operations acknowledged, 9 faults, 6 of them bit\n")
	}
	_, err := (&campaign{parallel: 1, from: 1000}).run(&options{})
	require.ErrorContains(t, err, "-from 1000")
	_, err = (&campaign{parallel: 1, count: -1}).run(&options{})
	require.ErrorContains(t, err, "-count -1")
}
