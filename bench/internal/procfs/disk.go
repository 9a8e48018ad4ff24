package procfs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Disk is the block device below a directory.
type Disk struct{ major, minor uint64 }

// Counters are totals since boot; the difference of two readings is what happened between them.
type Counters struct {
	Writes, WriteBytes, Flushes uint64
}

// Sub is what happened since before.
func (c Counters) Sub(before Counters) Counters {
	return Counters{c.Writes - before.Writes, c.WriteBytes - before.WriteBytes, c.Flushes - before.Flushes}
}

// DiskOf finds the device that holds path.
func DiskOf(path string) (Disk, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return Disk{}, fmt.Errorf("procfs: stat %s: %w", path, err)
	}
	// The layout of dev_t is the kernel's: twelve bits of major at 8, the low eight of minor at 0, the rest at 20.
	dev := uint64(st.Dev)
	d := Disk{major: dev >> 8 & 0xfff, minor: dev&0xff | dev>>12&0xfff00}
	_, err := d.Counters()
	return d, err
}

// Counters reads /proc/diskstats.
func (d Disk) Counters() (Counters, error) {
	data, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		return Counters{}, fmt.Errorf("procfs: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 19 || f[0] != strconv.FormatUint(d.major, 10) || f[1] != strconv.FormatUint(d.minor, 10) {
			continue
		}
		num := func(i int) uint64 { n, _ := strconv.ParseUint(f[i], 10, 64); return n }
		return Counters{Writes: num(7), WriteBytes: num(9) * 512, Flushes: num(18)}, nil
	}
	return Counters{}, fmt.Errorf("procfs: no block device %d:%d in /proc/diskstats", d.major, d.minor)
}

// DirBytes sums the blocks that the files below dir take on disk, by the part of the name before the first digit. Files
// that vanish while it looks are left out.
func DirBytes(dir string) (total int64, byKind map[string]int64, err error) {
	byKind = map[string]int64{}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return ignoreMissing(err)
		}
		var st syscall.Stat_t
		if err := syscall.Stat(path, &st); err != nil {
			return ignoreMissing(err)
		}
		kind := e.Name()
		if i := strings.IndexAny(kind, "0123456789"); i > 0 {
			kind = kind[:i]
		}
		if sub := filepath.Dir(path); sub != filepath.Clean(dir) {
			kind = filepath.Base(sub) + "/" + kind
		}
		total += st.Blocks * 512
		byKind[kind] += st.Blocks * 512
		return nil
	})
	return total, byKind, err
}

func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
