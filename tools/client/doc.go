// Package client holds the subcommands that talk to a node over its HTTP API about messages and what is made of them: push,
// pop, ack, peek, queues, groups, dead letters, keys, timers, locks; and login, which keeps the token that they send.
//
// Messages are printed as JSON objects that other commands take: what pop prints, ack reads, and push --wrapped pushes again.
// Payloads that are JSON are nested as they are; bytes that are not travel as base64 beside an "encoding" (payload.go has
// all the ways, verbs.go those of --format).
//
// A write whose answer was lost exits 7 and prints the ids to send it again with: push mints a transactionId for every
// message that has none, so that a repetition is recognised as a duplicate. The commands never repeat a call by
// themselves. Reads by offset (fetch, and tail without a group) touch no cursor.
//
// The package knows the API only, never the engine. One command runs per process, in one goroutine.
//
// Read first: Commands, Message; what all commands share is in tools/cli and tools/remote.
package client
