// Package histo counts durations in buckets whose width is 1.6 % of their value at most, so that percentiles of a run of
// any length cost 30 KiB. What it reports is the upper end of a bucket: never less than what was measured.
//
// A Histogram belongs to one goroutine; a Recorder may be shared.
//
// Read first: Histogram, Recorder.
package histo
