package report

import "queen/bench/internal/procfs"

// Spent notes what a number of messages cost the disk and the process, both over the time counted.
func (r *Report) Spent(s procfs.Reading, messages uint64) {
	n := float64(max(messages, 1))
	if s.HasDisk {
		r.Add("flushes per message", float64(s.Disk.Flushes)/n, "")
		r.Add("flushes", float64(s.Disk.Flushes)/s.Elapsed.Seconds(), "1/s")
		r.Add("disk bytes per message", float64(s.Disk.WriteBytes)/n, "B")
	}
	r.Add("cpu per message", float64(s.Usage.CPU.Microseconds())/n, "us")
	r.Add("cpu", s.Usage.CPU.Seconds()/s.Elapsed.Seconds(), "cores")
	r.Add("rss", float64(s.Usage.RSS)/(1<<20), "MiB")
	r.Add("descriptors", float64(s.Usage.FDs), "")
}
