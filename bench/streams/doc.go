// Command streams measures what consuming streams cost that have nothing to do: it starts the real binary, opens --streams
// of one consumer group, once as WebSockets and once as event streams, and lets them be idle; then it pushes one message at
// a time.
//
//	go run ./bench/streams [--streams 10000] [--kinds socket,events] [--idle 60s] [--pushes 500] [--data DIR] [--json]
//
// It prints, for each kind, the resident memory of the node before and with the streams and the difference per stream,
// threads and descriptors, how fast they were opened, the processor that the node used while all were idle and how much its
// directory grew meanwhile; and the time from the start of a push to the arrival of its message on whichever stream. A
// stream that ends by itself, or a message that does not arrive within --patience or arrives twice, is a violation.
//
// Conditions: a fresh node for each kind; streams commit on delivery, so that nothing is to be acked; the node's heartbeat
// is its default. The program needs as many descriptors as streams, and so does the node.
package main
