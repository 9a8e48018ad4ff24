// Package cli holds what every subcommand shares: exit codes, the streams of the process, and the ways of printing rows.
//
// The rules: standard output carries data and nothing else, in every format; everything said to people goes to standard
// error. A table is for a terminal, JSON for a pipe. A command whose item failed never exits 0. An error is one line, or
// one JSON object when the command was asked for JSON.
//
// The package knows no command, no node and no network. Nothing in it is safe for concurrent use: one command runs per
// process.
//
// Read first: Error, Streams, Printer.
package cli
