package kafkaload

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// judge says of each delivered record whether it may come now.
type judge struct {
	run        uint64
	group      bool            // repeats are counted and no violation
	next       []atomic.Uint32 // by partition: the offset that is due
	repeats    atomic.Uint64
	violations violations
}

// take is true for a record that comes for the first time. One goroutine at a time has a partition.
func (j *judge) take(rec *kgo.Record) (s stamp, fresh bool) {
	s, ok := parseStamp(rec.Value)
	if !ok || s.run != j.run || rec.Partition < 0 || int(rec.Partition) >= len(j.next) || s.partition != uint32(rec.Partition) {
		j.violations.add("partition %d delivers at offset %d what was not written there: %.40q", rec.Partition, rec.Offset, rec.Value)
		return s, false
	}
	if int64(s.number) != rec.Offset {
		j.violations.add("partition %d: record %d comes with offset %d", rec.Partition, s.number, rec.Offset)
	}
	next := j.next[s.partition].Load()
	switch {
	case s.number < next:
		j.repeats.Add(1)
		if !j.group {
			j.violations.add("partition %d: record %d is repeated, %d was due", s.partition, s.number, next)
		}
		return s, false
	case s.number > next:
		j.violations.add("partition %d: records %d to %d are missing", s.partition, next, s.number-1)
	}
	j.next[s.partition].Store(s.number + 1)
	return s, true
}

// violations keeps the first few.
type violations struct {
	mu struct {
		sync.Mutex
		some  []string
		count int
	}
}

const violationsKept = 20

func (v *violations) add(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.count++; len(v.mu.some) < violationsKept {
		v.mu.some = append(v.mu.some, fmt.Sprintf(format, args...))
	}
}

func (v *violations) list() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := v.mu.some
	if more := v.mu.count - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}
