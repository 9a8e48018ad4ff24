// Command user makes a user of SCRAM-SHA-256 and SCRAM-SHA-512 on a broker, for the suites that log in:
//
//	go run ./bench/kafka/suites/user HOST:PORT NAME PASSWORD
//
// It asks a listener on which nobody has to log in, and ends with 1 when the broker does not take the user.
package main
