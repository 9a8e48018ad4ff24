// Command real replays a real stream of events through the real binary while the node is killed with SIGKILL and started
// again, and judges everything that comes out.
//
//	go run ./bench/real --input FILE [--kills 5] [--producers 4] [--workers 4] [--data DIR] [--json]
//	go run ./bench/real --input FILE --nodes 3 [--for 20m] [--faults kill,pause,partition] [--seed N]
//
// FILE is NDJSON with the fields file, version and change; one line is one message, its file the partition, change:file its
// transaction id. Producers own a share of the files each and push 1 to 10 messages at a time; workers of one consumer
// group pop at most 20. Kills are spread over the run by the number of messages taken; one counts only when at least 4
// pushes and 2 pops had left and got no answer, and both numbers are printed.
//
// With --nodes it is a cluster of real processes that has faults done to it, one every ten seconds. The file is replayed in
// rounds, two at a time, each into a queue of its own that is deleted once the round is judged; the second replay and the
// new group have faults done to them as well. Producers and workers whose node does not answer go to another one.
//
// It exits with an error unless all of this held, in every round:
//
//   - every file's versions arrived one after another, with no gap and in order, byte for byte;
//   - what was acknowledged as consumed did not come again, and whatever came again was delivered as attempt 2 or more,
//     or followed an ack that got no answer;
//   - a second replay is answered "duplicate" for every line, with the offset and the id of the first;
//   - a new group that starts at the oldest message reads everything again, in order;
//   - the nodes drain and exit 0.
package main
