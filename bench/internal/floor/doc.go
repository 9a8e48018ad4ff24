// Package floor measures what the disk itself allows: durable writes of one size, one after another, into space that was
// written before. It goes through engine/vfs, so that the way to the disk is the node's own.
//
// Read first: Measure.
package floor
