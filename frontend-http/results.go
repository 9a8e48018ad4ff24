package frontendhttp

import (
	"slices"

	"queen/engine"
)

// keptResults is how many results a call may have whose memory is used again: they are large, and many calls wait at a time.
const keptResults = 1024

// roomFor is room for n results, in the memory of an earlier call where that is enough; nil for more than are kept.
func roomFor(room []engine.Result, n int) []engine.Result {
	if n > keptResults {
		return nil
	}
	return slices.Grow(room[:0], n)[:n]
}
