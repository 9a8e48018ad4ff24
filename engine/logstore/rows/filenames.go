package rows

import (
	"fmt"
	"strconv"
	"strings"
)

// Names in the index directory: the run of one closed segment is called after it, a merged one after
// the first and the last segment it covers.
const (
	segmentPrefix = "seg-"
	segmentSuffix = ".pidx"
	mergedPrefix  = "rows-"
	mergedSuffix  = ".run"
	piecePrefix   = "piece-"
)

func runName(first, last uint32) string {
	if first == last {
		return fmt.Sprintf("%s%010d%s", segmentPrefix, first, segmentSuffix)
	}
	return fmt.Sprintf("%s%010d-%010d%s", mergedPrefix, first, last, mergedSuffix)
}

// parseRunName is the way back; ok is false for a name of another kind or in another spelling.
func parseRunName(name string) (first, last uint32, ok bool) {
	if digits, ok := between(name, segmentPrefix, segmentSuffix); ok {
		first, ok = number(digits)
		return first, first, ok && runName(first, first) == name
	}
	digits, ok := between(name, mergedPrefix, mergedSuffix)
	if !ok {
		return 0, 0, false
	}
	low, high, ok := strings.Cut(digits, "-")
	if !ok {
		return 0, 0, false
	}
	first, okFirst := number(low)
	last, okLast := number(high)
	return first, last, okFirst && okLast && first < last && runName(first, last) == name
}

func between(name, prefix, suffix string) (string, bool) {
	s, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(s, suffix)
}

func number(digits string) (uint32, bool) {
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err == nil && n > 0
}

// pieceName is what a part of a run that is made again is written to.
func pieceName(first, last uint32, n int) string {
	return fmt.Sprintf("%s%010d-%010d-%d", piecePrefix, first, last, n)
}

// ours reports whether a name without TempSuffix is one that this package writes.
func ours(name string) bool {
	_, _, ok := parseRunName(name)
	return ok || strings.HasPrefix(name, piecePrefix)
}
