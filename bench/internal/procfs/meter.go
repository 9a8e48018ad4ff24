package procfs

import "time"

// Meter reads the counters of a disk and of a process together, so that a run can say what each message cost.
type Meter struct {
	disk Disk
	has  bool
	proc Process
}

// Reading is one moment; times are totals.
type Reading struct {
	At      time.Time
	Elapsed time.Duration // of a difference
	Disk    Counters
	HasDisk bool
	Usage   Usage
}

// NewMeter watches the disk that holds dir and a process. Where there is no block device, as in memory file systems and
// some containers, readings have no disk.
func NewMeter(dir string, p Process) (*Meter, error) {
	m := &Meter{proc: p}
	if d, err := DiskOf(dir); err == nil {
		m.disk, m.has = d, true
	}
	_, err := p.Usage()
	return m, err
}

// Read takes a reading. What can not be read, such as a process that ended, is zero.
func (m *Meter) Read() Reading {
	r := Reading{At: time.Now()}
	if m.has {
		if c, err := m.disk.Counters(); err == nil {
			r.Disk, r.HasDisk = c, true
		}
	}
	r.Usage, _ = m.proc.Usage()
	return r
}

// Sub is what happened since before; memory and descriptors are those of r.
func (r Reading) Sub(before Reading) Reading {
	r.Elapsed = r.At.Sub(before.At)
	r.HasDisk = r.HasDisk && before.HasDisk
	r.Disk = r.Disk.Sub(before.Disk)
	r.Usage.CPU -= before.Usage.CPU
	return r
}
