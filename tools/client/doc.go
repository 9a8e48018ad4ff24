// Package client holds the subcommands that talk to a node over its HTTP API: push, pop, ack, fetch, tail and queue.
//
// Messages are printed as JSON objects that other commands take: what pop prints, ack reads. Payloads that are JSON are
// nested as they are; bytes that are not travel as base64 beside an "encoding" (payload.go has all the ways).
//
// A write whose answer was lost exits 7 and prints the ids to send it again with: push mints a transactionId for every
// message that has none, so that a repetition is recognised as a duplicate. The commands never repeat a call by
// themselves. Reads by offset (fetch, and tail without a group) touch no cursor.
//
// The package knows the API only, never the engine. One command runs per process, in one goroutine.
//
// Read first: Commands, api, Message.
package client
