// Command nats is the peer of bench/replicas: the same loader, bench/internal/load, put on three servers of NATS JetStream that it
// starts on the loopback and ends.
//
//	cd bench/peers && go build -o ../out/nats ./nats && go build -o ../out/nats-server github.com/nats-io/nats-server/v2
//	bench/out/nats --server bench/out/nats-server [--publish async|atomic] [--batch 100] [--json]
//
// A stream with three replicas, on files, "sync_interval: always", holds a subject for each partition. A producer publishes its
// batch and waits for the acks of all of it: as single messages under way at the same time, each with its id, so that the
// server's window of duplicates is on (async), or as one of the server's atomic batches, with one ack (atomic). Consumers
// share one durable pull consumer, whose acks are explicit, one for each message, and confirmed by the server; a batch's are
// under way at the same time. What comes to several consumers at a time is in no order, so that only losses are judged.
package main
