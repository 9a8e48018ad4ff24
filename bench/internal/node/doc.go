// Package node builds the real binary, starts it on a data directory, waits until its ready file says that it can commit,
// and ends it: with SIGTERM, or with SIGKILL as a crash would.
//
// Read first: Build, Start.
package node
