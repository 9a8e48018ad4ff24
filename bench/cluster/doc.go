// Command cluster runs several real nodes, loads them from outside over HTTP, does them harm, and judges what the clients saw.
//
//	go run ./bench/cluster -faults kill,pause,partition+clock -time 60s -seed 1
//	go run ./bench/cluster -campaign -data /dev/shm/campaign -out lines.txt
//
// What is done to the nodes is bench/internal/nodes' affair: -help names the faults. Several, separated by +, are done together. A run fails
// when a judge finds something, when a node ended by itself or does not come back, when too little was acknowledged (-least) or when
// no fault is known to have bitten; its directory stays then, with the logs of the nodes and the history. A campaign is a run for
// each fault and for pairs of them, with three and five nodes, each in a process of its own, with a line for each; it can be split (-from,
// -count) and is 0 only if all went well. With -broken the nodes are broken on purpose, and the run is 0 only if the judges found it:
// their flushes are not done, leases are not looked at when entries are applied, or pushes are answered before they are committed (patches
// of a copy of the tree, in testdata). -failovers and -transfers measure instead how long calls wait when the leader is killed or hands over.
//
// Judged are: every acknowledged push is in the log, once, at the offset that was told, and the logs of all nodes are
// equal; no message is delivered again after its ack was acknowledged, nor under a second lease while the first can not
// have ended; every message is acked in the end; keys are linearizable (porcupine).
//
// Read first: main.go, then load.go (what clients do), check.go (what must hold), campaign.go.
package main
