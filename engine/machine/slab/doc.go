// Package slab holds the data structures that the state machine is made of: rows without Go pointers, addressed by
// 32-bit handles, cheap to change, and checkpointed while they change.
//
// State (checkpointed and digested):
//
//   - Slab[T]: fixed-size rows behind handles. Alloc always takes the lowest free handle, so that the whole of a
//     slab's state is the set of live rows and their bytes: there is no free list to store, and a slab rebuilt from
//     an image hands out the same handles as the original.
//   - Names: byte strings of up to 447 bytes behind 32-bit references, freed by size class, at about six bytes on top
//     of a name.
//   - Ring[T]: a journal: events at positions that only rise, the oldest dropped.
//
// Derived (rebuilt at open, never checkpointed, never in a digest):
//
//   - Index: bytes to handle by linear hashing; no rehash stall.
//   - Due: what falls due when, as (due, handle, kind) in exact order, cancelled by handle: leases, delays, back-off.
//   - RecentIDs: message ids of the last chunks, exactly, for duplicates.
//
// # Rows and dirt
//
// Get is for reading and Touch for writing. Touch, Alloc and Free mark the row twice: in the dirt of the next
// checkpoint (collected by Freeze) and in the dirt of the next digest (collected by Mark). A pointer from Get or
// Touch is good until the row is freed; a pointer from Touch may be written through only until the next Freeze, Mark
// or Free: Touch again after those.
//
// # Checkpoint
//
// On the apply goroutine, at one point of the log, call Freeze on every structure. Each returns an image of that
// instant; hand the images to one background goroutine, which calls Delta (rows changed since the previous Freeze),
// then, if the freeze had scope Base, Base (every live row), then Release. Apply goes on meanwhile: the first Touch
// of a row that the image still needs copies the old row aside. A row in an image is either the encoded row or, in a
// delta, empty: the handle was freed. Load takes exactly what Delta and Base emit, base first, deltas in order.
//
// # Concurrency
//
// Everything belongs to one goroutine (apply), reads included, with these exceptions: a *Frozen, a RingImage and an
// *IDChunk may be read by one other goroutine each while apply goes on.
//
// It deliberately knows no file, no clock and no meaning of a row. Broken promises of its caller (a freed handle
// freed again, two freezes at a time) end in invariants.Fail; damaged images come back as errors.
//
// Read Slab (slab.go), then Frozen (frozen.go), then Index (index.go).
package slab
