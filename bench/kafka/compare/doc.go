// Command compare sends the same raw requests to a node and to a second implementation of Kafka's protocol, in the same state, and
// lists how their answers differ. Every difference has to be judged in judged.txt; one that is not fails.
//
//	go run ./bench/kafka/compare --ours HOST:PORT                     against franz-go's kfake, in this process
//	go run ./bench/kafka/compare --ours HOST:PORT --other HOST:PORT --name kafka
//
// Both have to be new: the program makes a topic with records, and a consumer group with a position, and asks every key that
// both serve in every version that both serve, each request on a connection of its own that has not asked what is served. What
// differs between any two clusters (ids, addresses, clocks) is compared by whether it is there. --all lists judged differences, too.
//
// A line of judged.txt is: IMPLEMENTATION KEY CASE PATH REASON, where CASE and PATH may end in * and the reason is a sentence. The
// implementation is kfake or kafka; a line that matches nothing is told, and does not fail: cases depend on what is served.
package main
