// Package sidecar keeps, beside each index-closed segment, what identifies its content without reading
// it: the hashes of the chunks whose Mark lies in it, and how many bytes of which queue it stores.
//
// It promises that a list that can be read is the one that was written, and that comparing two nodes
// is comparing lists: chunk hashes are equal on all replicas, whatever their segments look like. It is
// derived: a lost sidecar is written again from the segment's entries and outcomes.
//
// It deliberately knows neither the log nor the state; the node computes the hashes and says when.
//
// Concurrency: plain values and files; the caller orders writes.
//
// Read first: Sidecar (sidecar.go), Compare (compare.go).
package sidecar
