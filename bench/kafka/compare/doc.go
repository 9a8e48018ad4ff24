// Command compare sends the same raw requests to a node and to a second implementation of Kafka's protocol, in the same state, and
// lists how their answers differ. Every difference has to be judged in judged.txt; one that is not fails.
//
//	go run ./bench/kafka/compare                                      against Apache Kafka and against franz-go's kfake
//	go run ./bench/kafka/compare --against kfake
//	go run ./bench/kafka/compare --ours HOST:PORT --other HOST:PORT --name kafka
//
// Both sides are new for each comparison: the program builds and starts a node of this tree, Apache Kafka (jars come through Maven)
// and kfake, in this process, unless it is told where they are. It makes a topic with records, and a consumer group with a
// position, and asks every key that both serve in every version that both serve, each request on a connection of its own that has
// not asked what is served. What differs between any two clusters (ids, addresses, clocks) is compared by whether it is there.
//
// These are mostly requests of strangers. Plays follow: records that are taken, members that join, get partitions, say that they live
// and leave, transactions that begin, commit and abort, each performed once for every version of every key in it. A step that our side
// refuses and should not fails whatever the other does: two refusals would agree.
//
// A line of judged.txt is: IMPLEMENTATION KEY CASE PATH REASON, where * stands for anything and the reason is a sentence; the CASE of a
// step is PLAY:STEP. The implementation is kfake or kafka; with a ? behind it the difference hangs on timing. Any other line that
// matches nothing fails, too, unless --other says where the other is, whose version is not known then. --all lists judged differences
// with their reasons.
package main
