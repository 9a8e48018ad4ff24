package procfs

import "time"

// Meter reads the counters of a disk and of processes together, so that a run can say what each message cost.
type Meter struct {
	disk  Disk
	has   bool
	procs []Process
}

// Reading is one moment; times are totals, and usage is that of all processes together.
type Reading struct {
	At      time.Time
	Elapsed time.Duration // of a difference
	Disk    Counters
	HasDisk bool
	Usage   Usage
}

// NewMeter watches the disk that holds dir, and processes. Where there is no block device, as in memory file systems and
// some containers, readings have no disk.
func NewMeter(dir string, procs ...Process) (*Meter, error) {
	m := &Meter{procs: procs}
	if d, err := DiskOf(dir); err == nil {
		m.disk, m.has = d, true
	}
	for _, p := range procs {
		if _, err := p.Usage(); err != nil {
			return m, err
		}
	}
	return m, nil
}

// Read takes a reading. What can not be read, such as a process that ended, is zero.
func (m *Meter) Read() Reading {
	r := Reading{At: time.Now()}
	if m.has {
		if c, err := m.disk.Counters(); err == nil {
			r.Disk, r.HasDisk = c, true
		}
	}
	for _, p := range m.procs {
		u, _ := p.Usage()
		r.Usage.add(&u)
	}
	return r
}

// Sub is what happened since before; memory and descriptors are those of r.
func (r Reading) Sub(before Reading) Reading {
	r.Elapsed = r.At.Sub(before.At)
	r.HasDisk = r.HasDisk && before.HasDisk
	r.Disk = r.Disk.Sub(before.Disk)
	r.Usage.CPU -= before.Usage.CPU
	r.Usage.Written -= before.Usage.Written
	return r
}

func (u *Usage) add(o *Usage) {
	u.CPU += o.CPU
	u.RSS += o.RSS
	u.FDs += o.FDs
	u.Threads += o.Threads
	u.Written += o.Written
}
