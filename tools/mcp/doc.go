// Package mcp is the client side of the Model Context Protocol on the command line: a bridge from standard input and
// output to a node, calls of single tools, and the entry of a node in the configuration of coding agents.
//
// Credentials come from the environment only (QUEEN_TOKEN): they are never written to a file and never to the log.
package mcp
