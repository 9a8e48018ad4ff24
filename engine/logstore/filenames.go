package logstore

import (
	"fmt"
	"strconv"
	"strings"
)

// Names in the log directory (those of segments are format.SegmentID's). The number is decimal, at least
// ten digits, so that a listing is in order.
const (
	segmentPrefix = "seg-"
	bulkPrefix    = "blk-"
	poolPrefix    = "pool-"
	dataSuffix    = ".dat"
	tmpSuffix     = ".tmp"
	beaconName    = "beacon.dat"
)

func poolName(n uint32) string { return numbered(poolPrefix, n) }

func numbered(prefix string, n uint32) string { return fmt.Sprintf("%s%010d%s", prefix, n, dataSuffix) }

// parseNumbered returns the number in a name, or false for a name of another kind or in another spelling.
func parseNumbered(name, prefix string) (uint32, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	if digits, ok = strings.CutSuffix(digits, dataSuffix); !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || numbered(prefix, uint32(n)) != name {
		return 0, false
	}
	return uint32(n), true
}
