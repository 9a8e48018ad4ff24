// Command cluster runs several real nodes, loads them from outside over HTTP, does them harm, and judges what the clients saw.
//
//	go run ./bench/cluster -faults kill,pause,partition -seconds 60 -seed 1
//
// Nodes talk to each other by way of relays of this process, which find out by the sender's socket whose a connection is, so
// that any link can be cut in either direction without privileges. Faults are kill (kill -9 of the leader), killany, pause (SIGSTOP of the leader), partition
// (the leader alone), deaf (the leader hears nobody but is heard), minority, oneway (one link, one direction), flap,
// transfer, restart (SIGTERM, one after the other); several, separated by +, are done together.
//
// Judged are: every acknowledged push is in the log, once, at the offset that was told, and the logs of all nodes are
// equal; no message is delivered again after its ack was acknowledged, nor under a second lease while the first can not
// have ended; every message is acked in the end; keys are linearizable (porcupine).
//
// Read first: main.go, then load.go (what clients do), check.go (what must hold).
package main
