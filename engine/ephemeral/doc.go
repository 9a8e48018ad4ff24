// Package ephemeral holds queues in memory: request and reply, presence, progress, whatever is worthless after a
// restart (S-eph-1 to 16). A push costs a lock and a wake; there is no log entry, no file and no flush.
//
// # What it promises
//
//   - FIFO per partition: messages of one partition are handed out to a consumer group in the order of their pushes.
//     What comes back (a lease ran out, a worker said failed or retry) goes before what was never handed out.
//   - One copy: a partition is one list of messages, and each consumer group has a cursor on it. A message goes when
//     every group that reads its partition has settled it, or when a bound or its age takes it.
//   - Bounds: messages and bytes of a queue, then the plan of the tenant, then the bytes of the node; a push
//     is taken whole or not at all. Names, groups, cursors, leases and parked pops count into the bytes of the node.
//   - Two leases of one message in one group never overlap; a lease ends when the clock says so, whoever looks first.
//
// # What it does not do
//
// It keeps no declaration: whoever makes the Store looks them up and stores them. It has no dead letters, no replay, no
// transactions. A group that nobody polls for IdleAfter is forgotten with its position.
//
// # Concurrency
//
// One mutex guards everything: no call waits under it, walks other queues, or touches a file. A parked pop is a
// waiter in a list and a channel; it has no timer. Everything that falls due by time is in one heap, or in one of the
// lists of idle things, which are in order of time by themselves; one timer of the clock stands for the earliest.
// Calls run what is due before they look, so that verdicts do not depend on when the timer fires.
//
// # Reading order
//
// Store (store.go) is the door; queue, partition, group and cursor (queue.go, cursor.go) are what it holds; push.go,
// take.go and settle.go are a message's life; pop.go and waiter.go are a pop's.
package ephemeral
