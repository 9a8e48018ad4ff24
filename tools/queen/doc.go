// Command queen is the node and everything around it: "queen serve" runs a durable node, "queen dev" runs one for trying
// out, and the other subcommands are clients of a node.
//
// It is the composition root, the only place that knows every part: it reads the settings, opens the engine on the real
// file system and clock, hands the engine to the frontends, and turns signals into a drain. Behaviour lives elsewhere:
// settings in tools/config, the client commands in tools/client, printing and exit codes in tools/cli.
//
// It also holds the tests that concern the whole: which package may import which (arch_test.go), how files look
// (tidy_test.go), the README's guide, transcripts of every command against a real node, and a node killed at any moment.
//
// INVARIANT: a node that can not write or flush ends with exit code 70 and answers nothing more: fatal in node.go never
// returns.
//
// Read first: node.go, serve.go.
package main
