// Command run measures every number that this project holds itself to and prints one table: what was measured, what is to
// be held, what is reached for.
//
//	go run ./bench/run [--rows push,http,single,flat,overload,partitions] [--runs 3] [--data DIR] [--smoke]
//
// It builds the node and the programs of bench into bench/out (and the peer of bench/peers, where its modules can be had),
// and gives each row a fresh directory and a fresh node. Before each row the floor of the disk is measured, so that every
// figure stands beside the disk of the same minute. Under the table stands everything the programs printed.
//
// --smoke shortens everything to seconds: it shows that the programs work and measures nothing.
package main
