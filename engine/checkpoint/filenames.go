package checkpoint

import (
	"fmt"
	"strconv"
	"strings"

	"queen/engine/format"
)

const (
	filePrefix  = "ckp-"
	baseSuffix  = ".base"
	deltaSuffix = ".delta"
	tmpSuffix   = ".tmp"
)

// Number numbers a checkpoint file: two numbers for every mark, so that a number says where the
// chain stands.
func Number(mark uint64, kind format.CheckpointKind) uint64 {
	if kind == format.CheckpointBase {
		return mark<<1 | 1
	}
	return mark << 1
}

// MarkOf is the mark at which a file stands.
func MarkOf(number uint64) uint64 { return number >> 1 }

// IsBase tells a base from a delta by its number.
func IsBase(number uint64) bool { return number&1 == 1 }

// FileName is ckp-<mark>.base or ckp-<mark>.delta, the mark in ten digits or more.
func FileName(number uint64) string {
	suffix := deltaSuffix
	if IsBase(number) {
		suffix = baseSuffix
	}
	return fmt.Sprintf("%s%010d%s", filePrefix, MarkOf(number), suffix)
}

// ParseFileName returns the number of a checkpoint file. Unfinished files and those of other kinds
// answer false.
func ParseFileName(name string) (number uint64, ok bool) {
	for _, kind := range []format.CheckpointKind{format.CheckpointBase, format.CheckpointDelta} {
		suffix := deltaSuffix
		if kind == format.CheckpointBase {
			suffix = baseSuffix
		}
		digits, ok := strings.CutSuffix(name, suffix)
		if !ok {
			continue
		}
		if digits, ok = strings.CutPrefix(digits, filePrefix); !ok {
			return 0, false
		}
		mark, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || FileName(Number(mark, kind)) != name {
			return 0, false
		}
		return Number(mark, kind), true
	}
	return 0, false
}

// IsOurs reports whether a name is that of a checkpoint file, finished or not.
func IsOurs(name string) bool {
	_, ok := ParseFileName(strings.TrimSuffix(name, tmpSuffix))
	return ok
}
