// Command replicas measures what replication costs: the same load against one node, against three nodes of one cluster, and
// against three servers of NATS JetStream, all processes and the loader on this machine and its one disk.
//
//	go run ./bench/replicas [--targets one,three,nats] [--groups 1,2] [--batches 100,1] [--transfers 20] [--restarts 10]
//
// Every cell has fresh processes on fresh directories:
//
//	one    a node of this tree, built into --out
//	three  three of them, in one raft group and, with two tenants and half of the load for each, in two
//	nats   three servers of NATS (bench/peers, fetched and built when it is wanted): a stream with three replicas on files with
//	       "sync_interval: always", one durable pull consumer whose acks are explicit and confirmed. Batches are published as
//	       they come with all acks awaited (async), and as the server's atomic batches (atomic)
//
// The loader is bench/internal/load: connections are spread over all nodes, producers push batches to random partitions and wait
// for the answer, consumers pop and ack each message. Order, gaps and repeats are judged on our nodes; where messages of one
// partition may be with several consumers, only losses.
//
// Written bytes are those that the kernel counted for the processes. A node of ours writes zeroes into a fresh directory
// before it has anything to put there, which retention spares later; the last of the three numbers leaves them out. Its
// segments are of 32 MiB here, so that what is kept ready of them is there before time counts.
//
// Then the lead is moved --transfers times by "queen cluster transfer-leader", and --restarts times by SIGTERM to who leads,
// while a client of each node pushes one message at a time: how long was each node without an answer?
package main
