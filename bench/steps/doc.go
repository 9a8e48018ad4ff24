// Command steps judges whole steps of workers: every line of a stream is consumed in a transaction that acknowledges it,
// adds to a counter of its file, pushes into an index, and for every hundredth line schedules a timer, while the node is
// killed and workers crash before and after their commits. At the end each counter must be the sum computed from the
// input, the index must hold every version of every file once and in order, and every timer must have fired once.
//
//	go run ./bench/steps --input FILE
//	go run ./bench/steps --input FILE --nodes 3 [--for 20m] [--faults kill,pause,partition] [--seed N]
//
// With --nodes it is a cluster of real processes that has faults done to it, one every ten seconds. The stream is consumed in
// rounds, two at a time, each with queues and keys of its own that are deleted once the round is judged, which happens
// under faults as well. Who has no answer goes to another node.
//
// Nothing of it can hide behind the dedup window: what a step pushes and schedules carries no id of its own, so a step
// that took place twice shows twice.
package main
