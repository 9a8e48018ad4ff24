// Package broker starts brokers that are not this project's, as processes on loopback, and tells when one answers Kafka's
// requests: Apache Kafka 4.x as a single node (Apache), and any command that listens (Start).
//
// They are killed in the end: what they wrote is thrown away.
package broker
