// Package stats holds what the node counts: histograms with one bucket per power of two, safe to
// feed from any goroutine and cheap enough for every call. Plain counters are atomic.Uint64.
//
// It knows no names and no exposition format: packages own their counters, frontends render
// snapshots.
package stats
