package floor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"time"

	"queen/bench/internal/histo"
	"queen/bench/internal/procfs"
	"queen/engine/vfs"
)

// Result is one size of write.
type Result struct {
	Bytes   int
	Writes  uint64
	Elapsed time.Duration
	Latency histo.Histogram
	Mode    string
	// Flushes is -1 when the disk's counters can not be read.
	Flushes int64
}

// PerSecond is writes a second.
func (r *Result) PerSecond() float64 { return float64(r.Writes) / r.Elapsed.Seconds() }

// zeroed is how much of the file is written before; the measured writes go round in it.
const zeroed = 256 << 20

// File is a file of zeroes on the disk to be measured.
type File struct {
	f    vfs.File
	name string
	disk procfs.Disk
	has  bool
}

// Create writes the file of zeroes into dir and makes it durable. Close removes it.
func Create(dir string) (*File, error) {
	name := path.Join(dir, fmt.Sprintf("floor-%d.dat", os.Getpid()))
	f, err := vfs.NewOS(vfs.OSOptions{}).Open(name, vfs.Create|vfs.Truncate|vfs.Direct)
	if err != nil {
		return nil, err
	}
	out := &File{f: f, name: name}
	if out.disk, err = procfs.DiskOf(dir); err == nil {
		out.has = true
	}
	zero := vfs.AlignedBuffer(4 << 20)
	for pos := int64(0); pos < zeroed; pos += int64(len(zero)) {
		if _, err := f.WriteAt(zero, pos); err != nil {
			return nil, errors.Join(err, out.Close())
		}
	}
	if err := f.Sync(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

// Close removes the file.
func (f *File) Close() error { return errors.Join(f.f.Close(), os.Remove(f.name)) }

// Measure writes blocks of size bytes, rounded up to whole blocks, for d.
func (f *File) Measure(size int, d time.Duration) (*Result, error) {
	size = int(vfs.RoundUp(int64(size)))
	buf := vfs.AlignedBuffer(size)
	for i := range buf {
		buf[i] = byte(rand.Uint32())
	}
	r := &Result{Bytes: size, Mode: f.f.Mode().String(), Flushes: -1}
	before, err := f.disk.Counters()
	counted := f.has && err == nil
	start := time.Now()
	last := start
	for pos := int64(0); last.Sub(start) < d; {
		if err := f.f.WriteAtSync(buf, pos); err != nil {
			return nil, err
		}
		now := time.Now()
		r.Latency.Add(now.Sub(last))
		last = now
		r.Writes++
		if pos += int64(size); pos+int64(size) > zeroed {
			pos = 0
		}
	}
	r.Elapsed = last.Sub(start)
	if after, err := f.disk.Counters(); counted && err == nil {
		r.Flushes = int64(after.Sub(before).Flushes)
	}
	return r, nil
}
