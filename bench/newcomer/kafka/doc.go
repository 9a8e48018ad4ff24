// Program kafka is a first Kafka client, for bench/newcomer/run where kcat is not installed: it writes one record and reads it
// back.
//
// It measures nothing and judges nothing else.
//
// Read first: main.
package main
