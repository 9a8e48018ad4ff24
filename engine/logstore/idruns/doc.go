// Package idruns remembers the ids that callers gave their messages, for as long as a queue's window
// reaches beyond what the state holds: at each fourth mark the ids of the chunks up to it become a run
// file, and a look-up says where, and when, a partition last stored an id.
//
// It promises:
//
//   - ClearTo names the mark up to which ids are durable in runs and a miss is proof.
//   - A look-up finds the newest row of (partition, hash), or none, or fails naming the file that can
//     not be read. It is never wrong.
//   - Which runs there are after a mark depends on marks and stamps alone, never on how far background
//     work has come, so the files are the same, byte for byte, on every replica, and can be listed by
//     hash. What is not resident (filters) can be dropped and made again.
//   - A miss costs no read: filters of about 17 bits a row keep it away from the files, one false alarm
//     in 3,700. Over the budget the oldest filters go, and old look-ups read one block instead.
//
// Everything goes by an id's spread (format.IDSpread), a number that is even over all 64 bits: rows are sorted and
// merged by dealing them into slots (order.go), and a filter is written down while rows come in order (sieve.go).
//
// It deliberately judges nothing: whether a row still makes a duplicate is for apply, by W.
//
// Concurrency: one goroutine calls Add, Step, Repair and Discard; any number look up meanwhile.
//
// Read first: Set (set.go), Add (add.go), the rule of merging (rule.go), then merging (merging.go).
package idruns
