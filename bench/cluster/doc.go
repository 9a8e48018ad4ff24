// Command cluster runs several real nodes, loads them from outside over HTTP, does them harm, and judges what the clients saw.
//
//	go run ./bench/cluster -faults kill,pause,partition+clock -time 60s -seed 1
//	go run ./bench/cluster -campaign -data /dev/shm/campaign -out lines.txt
//
// What is done to the nodes is bench/internal/nodes' affair: -help names the faults. Several, separated by +, are done together. A run fails
// when a judge finds something, when a node ended by itself or does not come back, when too little was acknowledged (-least) or when
// of a kind of fault nothing shows that it bit; its directory stays then, with the logs of the nodes and the history. After the load everything has to be
// consumed: as long as consumers get on they are waited for, up to six minutes, and when nothing moves for one what tells why is written
// into stall/ (stall.go), and the nodes' goroutines into their logs. A run ends with a verdict, whatever hangs (verdict.go).
//
// A campaign is a run for each fault and for pairs of them, with three and five nodes, each in a process of its own, with a line for each and
// one for each of its faults, which says what shows that it bit; it can be split (-from, -count, with the same -seed) and is 0 only if all went
// well. With -broken the nodes are broken on purpose, and the run is 0 only if the judges found it: their flushes are not done, leases
// are not looked at when entries are applied, or pushes are answered before they are committed (patches of a copy of the tree as it was
// committed, in testdata). -failovers and -transfers measure instead how long calls wait when the leader is killed or hands over.
//
// Clients are there once for each tenant, and tenants in each raft group; as the default tenant there are clients of Kafka, too, which share
// topics with native ones. Judged are, most of it while the run goes on:
//
//   - logs: every acknowledged push or record is there, once, at the offset that was told, in the order of its writer, behind all that
//     was acknowledged before it was sent; all nodes hold the same, over HTTP and over Kafka; what a reader saw stays;
//   - dedup: a push that was acknowledged and is sent again, to another node, is a duplicate of the same message;
//   - leases: of a partition one lives at a time, from its first possible claim to its last possible end, and is not refused while it lives;
//   - acks: nothing is delivered again whose ack, or one of what lies behind it, was answered; nothing is skipped; everything is acked in the end;
//   - steps: ack, counter, index and timer of a transaction took place once (workers die before, after and are too slow);
//   - dead letters: what is refused to the end is one, once, on every node, after no fewer refusals, and is delivered no more;
//   - timers: what was scheduled fires once, not before its time (its group's clock may go a twentieth fast), and not at all once a cancel was answered;
//   - keys are linearizable (porcupine); calls with an Idempotency-Key count once;
//   - Kafka's groups go on where commits were answered; transactions that consume, transform and produce copy each record once, in order.
//
// Times are those of this process: what came is compared with what had been sent before, and no clock of a node is believed. While wall
// clocks of nodes jump, timers may be early, but the group's time stays near.
//
// Read first: main.go, campaign.go; load.go (who the clients are); lane.go and taking.go (what is kept of a partition); check.go, drain.go.
package main
