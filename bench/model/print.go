package main

import (
	"fmt"
	"maps"
	"slices"

	"queen/engine/enginetest"
	"queen/engine/invariants"
)

// printVerdicts names what occurred less often than least, and returns how much of that has no reason.
func printVerdicts(cov *enginetest.Coverage, least int) (unexplained int) {
	fmt.Printf("verdicts below %d:\n", least)
	for _, v := range slices.Sorted(maps.Keys(cov.Verdicts)) {
		if n := cov.Verdicts[v]; n < least {
			fmt.Printf("%9d  %s\n", n, v)
			unexplained++
		}
	}
	seen, unseen := cov.Codes()
	fmt.Println("\nerror codes told:")
	for _, code := range slices.Sorted(maps.Keys(seen)) {
		fmt.Printf("%9d  %s\n", seen[code], code)
	}
	fmt.Println("error codes not told:")
	for _, code := range unseen {
		reason := enginetest.Elsewhere[code]
		if reason == "" {
			reason = "NOT EXPLAINED"
			unexplained++
		}
		fmt.Printf("%24s  %s\n", code, reason)
	}
	return unexplained
}

// killStep is a phase in which a node has to survive being killed, and the failpoints in it, or why a run of this
// program has none.
type killStep struct {
	phase  string
	points []string
	reason string
}

// Reasons that several phases share.
const (
	oneNode = "takes several nodes or several raft groups"
	offline = "a tool on a stopped node; its own tests"
)

// killList is the list of phases for kill -9.
var killList = []killStep{
	{phase: "before and after the write of an extent", points: []string{"logstore.extent.planned", "logstore.extent.written"}},
	{phase: "between the extents of two groups", reason: oneNode},
	{phase: "before the ack", points: []string{"logstore.extent.before-ack"}},
	{phase: "seal before and after the footer", points: []string{"logstore.seal.before-footer", "logstore.seal.footer-written"}},
	{phase: "seal: rows and sidecar of the segment", points: []string{"engine.close.rows-written", "engine.close.sidecar-written"}},
	{phase: "seal: next segment renamed, head written, directory flushed",
		points: []string{"logstore.take.renamed", "logstore.take.head-written", "logstore.take.durable"}},
	{phase: "mark applied on one replica only", reason: oneNode},
	{phase: "checkpoint: files, manifest, old files",
		points: []string{"engine.checkpoint.files-written", "checkpoint.manifest.written", "engine.checkpoint.manifest-switched", "engine.checkpoint.old-unlinked"}},
	{phase: "keyed rows flushed, the flush not recorded", points: []string{"engine.checkpoint.keyed-flushed", "engine.checkpoint.keyed-recorded"}},
	{phase: "snapshot recorded, entries not compacted", reason: oneNode},
	{phase: "entries given up, their space not", points: []string{"engine.reclaim.unlisted", "engine.reclaim.segments-given-away"}},
	{phase: "half of a hole punched", reason: "there are no holes: live data is relocated"},
	{phase: "relocation before and after its rows replace the old ones", points: []string{"engine.relocate.bulk-listed", "engine.relocate.rows-replaced"}},
	{phase: "relocation thins merged rows", reason: "takes 16 closed segments; the engine's relocation tests"},
	{phase: "recycled segment renamed, its head old", points: []string{"logstore.recycle.renamed"}},
	{phase: "rejoin, import, full copy", reason: oneNode},
	{phase: "backup and restore", reason: offline},
	{phase: "first boot", points: []string{"logstore.pool.zeroed", "logstore.pool.ready"}},
	{phase: "another format version", reason: "there is one version of each format"},
}

// printFailpoints tells how often each failpoint was passed and which phases of the kill list were; it returns how many
// of them were missed without a reason.
func printFailpoints() (unmet int) {
	hit, names := 0, invariants.Failpoints()
	fmt.Println("\nfailpoints passed:")
	for _, name := range names {
		n := invariants.Hits(name)
		if n > 0 {
			hit++
		}
		fmt.Printf("%9d  %s\n", n, name)
	}
	fmt.Printf("%d of %d failpoints\n\nphases of the kill list:\n", hit, len(names))
	for _, step := range killList {
		verdict := step.reason
		if verdict == "" {
			verdict = "passed"
		}
		for _, name := range step.points {
			if invariants.Hits(name) == 0 {
				verdict = "NOT PASSED: " + name
				unmet++
			}
		}
		fmt.Printf("  %s: %s\n", step.phase, verdict)
	}
	return unmet
}
