// Package cli holds what every subcommand shares: exit codes, the streams of the process, the ways of printing rows, the
// questions before what destroys, and times of the command line.
//
// The rules: standard output carries data and nothing else, in every format; everything said to people goes to standard
// error. A table is for a terminal, JSON for a pipe. A command whose item failed never exits 0. An error is one line, or
// one JSON object when the command was asked for JSON. Whatever destroys tells its plan first and asks for a name.
//
// The package knows no command, no node and no network; tools/remote adds the node. Nothing in it is safe for concurrent
// use: one command runs per process.
//
// Read first: Command, Invocation, Printer, Error.
package cli
