package diagnosis

import (
	"slices"

	"queen/engine"
)

// Alarm is a state of the node that an operator should look at first.
type Alarm struct {
	// Code is a word for programs, Severity is critical, warning or info, Hint is what to do.
	Code, Severity, Hint string
}

// noWrites is the code of a node that takes no writes, or none of some tenants.
const noWrites = "no_writes"

// DiskUsed is how much of the data directory's file system is taken, in percent; nil when that is not known.
func DiskUsed(s *engine.Stats) *float64 {
	if s.DiskTotal == 0 {
		return nil
	}
	pct := 100 * float64(s.DiskTotal-min(s.DiskFree, s.DiskTotal)) / float64(s.DiskTotal)
	return &pct
}

// Alarms are what an operator should look at first, the worst first. It is never nil.
func Alarms(st *engine.Status, s *engine.Stats) []Alarm {
	out := []Alarm{}
	add := func(cond bool, code, severity, hint string) {
		if cond {
			out = append(out, Alarm{code, severity, hint})
		}
	}
	add(st.StorageFull, "storage_full", "critical", "Writes are refused until the disk is below disk.low: free space or make retention shorter.")
	some := slices.ContainsFunc(st.Groups, func(g engine.GroupStatus) bool { return g.CanWrite })
	add(!st.StorageFull && !st.CanWrite && !some, noWrites, "critical", "The node takes no writes: why says the reason.")
	add(!st.StorageFull && !st.CanWrite && some, noWrites, "critical",
		"The node takes no writes of tenants in some of its raft groups, those of others it takes: groups says which, and why.")
	add(st.ClockStep != "", "clock_step", "warning", "The system clock stepped: times of messages approach it slowly.")
	if used := DiskUsed(s); used != nil {
		add(*used > 75 && !st.StorageFull, "disk_filling", "warning", "The disk is more than three quarters full: writes stop at disk.high.")
	}
	slices.SortStableFunc(out, func(a, b Alarm) int { return severityRank(a.Severity) - severityRank(b.Severity) })
	return out
}

func severityRank(s string) int { return slices.Index([]string{"critical", "warning", "info"}, s) }
