package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Process is one running process.
type Process int

// Usage is what a process holds now and has used so far.
type Usage struct {
	RSS     int64         // bytes
	CPU     time.Duration // user and system, all threads, in steps of 10 ms
	FDs     int
	Threads int
	// Written are bytes sent to the disk or left dirty for it, 0 where the kernel does not tell.
	Written int64
}

// Self is this process.
func Self() Process { return Process(os.Getpid()) }

// clockTick is the unit of /proc/PID/stat on every Linux Go runs on.
const clockTick = 10 * time.Millisecond

// Usage reads /proc.
func (p Process) Usage() (Usage, error) {
	dir := fmt.Sprintf("/proc/%d/", int(p))
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return Usage{}, fmt.Errorf("procfs: %w", err)
	}
	// The command is in parentheses and may hold spaces; fields are counted after it, from 3.
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(f) < 22 {
		return Usage{}, fmt.Errorf("procfs: %sstat has %d fields", dir, len(f))
	}
	num := func(i int) int64 { n, _ := strconv.ParseInt(f[i-3], 10, 64); return n }
	fds, err := os.ReadDir(dir + "fd")
	if err != nil {
		return Usage{}, fmt.Errorf("procfs: %w", err)
	}
	io, _ := os.ReadFile(dir + "io") // only for processes of one's own
	return Usage{
		CPU: time.Duration(num(14)+num(15)) * clockTick, Threads: int(num(20)),
		RSS: num(24) * int64(os.Getpagesize()), FDs: len(fds), Written: counted(io, "write_bytes: "),
	}, nil
}

// counted is the number that a line of name and number tells, 0 without that line.
func counted(text []byte, name string) (n int64) {
	for line := range strings.Lines(string(text)) {
		if number, ok := strings.CutPrefix(line, name); ok {
			n, _ = strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		}
	}
	return n
}

// Switches is how often its threads gave a processor up or had it taken. Those of threads that have ended are not in it.
func (p Process) Switches() (n int64, err error) {
	dir := fmt.Sprintf("/proc/%d/task/", int(p))
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("procfs: %w", err)
	}
	for _, t := range tasks {
		status, err := os.ReadFile(dir + t.Name() + "/status")
		if err != nil {
			continue // ended meanwhile
		}
		for line := range strings.Lines(string(status)) {
			if _, count, ok := strings.Cut(line, "ctxt_switches:"); ok { // voluntary ones and others
				one, _ := strconv.ParseInt(strings.TrimSpace(count), 10, 64)
				n += one
			}
		}
	}
	return n, nil
}

// Load is the machine's load average over the last minute; what ran besides a measurement shows here.
func Load() float64 {
	data, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(data), " ")
	n, _ := strconv.ParseFloat(first, 64)
	return n
}
