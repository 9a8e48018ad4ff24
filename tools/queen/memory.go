package main

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"queen/tools/cli"
)

// gcPercent trades memory for less collection: the live heap of a node is small and flat, and the garbage is made by
// requests. The memory limit takes over before the machine is full.
const gcPercent = 300

// limitMemory sets the collector's policy. GOGC and GOMEMLIMIT of the environment go before it, each for itself; limit
// is the setting in bytes, 0 to compute one. It returns the limit in force, or math.MaxInt64.
func limitMemory(s cli.Streams, limit int64) int64 {
	if s.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if s.Getenv("GOMEMLIMIT") != "" {
		return debug.SetMemoryLimit(-1)
	}
	if limit == 0 {
		// A quarter stays for the page cache, the stacks of the kernel and what other processes need.
		if limit = machineMemory(); limit < math.MaxInt64 {
			limit = limit / 4 * 3
		}
	}
	debug.SetMemoryLimit(limit)
	return limit
}

// machineMemory is the memory of the machine or of the control group, whichever is less; math.MaxInt64 when neither can
// be read.
func machineMemory() int64 {
	least := int64(math.MaxInt64)
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		least = min(least, memTotal(string(data)))
	}
	for _, name := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if data, err := os.ReadFile(name); err == nil {
			least = min(least, groupLimit(string(data)))
		}
	}
	return least
}

// memTotal reads the MemTotal line of /proc/meminfo, which is in KiB.
func memTotal(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil && kib > 0 && kib < math.MaxInt64>>10 {
				return kib << 10
			}
		}
	}
	return math.MaxInt64
}

// groupLimit reads a control group's limit: bytes, or "max".
func groupLimit(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n <= 0 {
		return math.MaxInt64
	}
	return n
}
