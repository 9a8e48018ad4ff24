package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"

	"queen/tools/cli"
)

const (
	// gcPercent trades memory for less collection: the live heap of a node is small and flat, and the garbage is made by
	// requests. The memory limit takes over before the machine is full.
	gcPercent = 300
	// gcHeadroom bounds the garbage of a node whose state is large: what requests make does not grow with the state, and
	// a percentage of a million partitions would be a gigabyte. Most of such a heap holds no pointers, so that marking
	// it more often costs little. At gcPercentMin the headroom grows with the heap again.
	gcHeadroom   = 512 << 20
	gcPercentMin = 40
)

// limitMemory sets the collector's policy. GOGC and GOMEMLIMIT of the environment go before it, each for itself; limit
// is the setting in bytes, 0 to compute one. It returns the limit in force, or math.MaxInt64.
func limitMemory(s cli.Streams, limit int64) int64 {
	if s.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
		afterCollections(followHeap())
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

// percentOf is the collector's percentage for a live heap.
func percentOf(live uint64) int {
	if live == 0 {
		return gcPercent
	}
	return max(gcPercentMin, int(min(gcPercent, gcHeadroom*100/live)))
}

// followHeap returns what keeps the percentage at percentOf. Setting it stops the world for some microseconds, so what makes a
// difference of one part in fifty is let be. A wider margin lets the headroom grow with the heap, and memory vary by more than what lives.
func followHeap() func() {
	current := gcPercent
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	return func() {
		metrics.Read(sample)
		if sample[0].Value.Kind() != metrics.KindUint64 {
			return
		}
		if p := percentOf(sample[0].Value.Uint64()); p > current+current/50 || p < current-current/50 {
			current = p
			debug.SetGCPercent(p)
		}
	}
}

// afterCollections calls do after every collection from now on, from the runtime's goroutine of finalizers.
func afterCollections(do func()) {
	type sentinel struct{ _ *byte } // with a pointer it is not packed together with other small objects
	var arm func()
	arm = func() {
		runtime.SetFinalizer(new(sentinel), func(*sentinel) {
			do()
			arm()
		})
	}
	arm()
}

// giveBack returns free memory to the system at once; the node calls it when it has fallen idle. Objects in pools
// survive one collection, hence two.
func giveBack() {
	runtime.GC()
	debug.FreeOSMemory()
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
