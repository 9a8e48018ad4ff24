// Package offline opens a stopped node's directory for reading: a node runs over it, and whatever that node writes goes
// to a directory of its own that is thrown away.
//
// The directory is locked meanwhile, so that no node can start in it, and nothing in it is changed. Time stands still at
// the last write of the directory: leases, timers and ages are what they were when the node stopped.
package offline
