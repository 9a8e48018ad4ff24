package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"queen/bench/internal/floor"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

func main() {
	dir := flag.String("dir", "bench/out", "directory on the disk to measure")
	each := flag.Duration("duration", 2*time.Second, "time per size")
	sizes := flag.String("sizes", "4096,65536,1048576", "bytes per write")
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.Parse()
	r, err := measure(*dir, *sizes, *each)
	if err != nil {
		report.Fail("floor", err)
	}
	r.Exit(*asJSON)
}

func measure(dir, sizes string, each time.Duration) (*report.Report, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := floor.Create(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &report.Report{Program: "floor"}
	for _, text := range strings.Split(sizes, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || size < 1 || size > 64<<20 {
			return nil, fmt.Errorf("--sizes %q: want bytes, at most 64 MiB each", text)
		}
		m, err := f.Measure(size, each)
		if err != nil {
			return nil, err
		}
		r.Conditions = fmt.Sprintf("%s, zeroed file, one writer, %v per size, load %.1f", m.Mode, each, procfs.Load())
		name := fmt.Sprintf("%d KiB", m.Bytes>>10)
		r.Add(name+" writes", m.PerSecond(), "1/s")
		r.Add(name+" bytes", m.PerSecond()*float64(m.Bytes)/1e6, "MB/s")
		r.Latency(name, &m.Latency)
		if m.Flushes >= 0 {
			r.Add(name+" flushes per write", float64(m.Flushes)/float64(m.Writes), "")
		}
	}
	return r, nil
}
