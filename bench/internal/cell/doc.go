// Package cell measures one broker, of one process or of several on one disk, under one load or several at the same time: rates,
// latencies, and what a message cost in flushes, written bytes and processor time. Brokers of different make are compared by
// nothing but the load.Target they are reached through.
//
// Read first: Options, Measure.
package cell
