// Package frontendmcp will offer the broker to language models over the Model Context Protocol, on a listener of its own
// and on standard input and output. It is not built yet, and a node asked to run it refuses to start.
//
// What will be here: tools, resources and prompts over engine.Engine through the official Go SDK, with every write
// planned, shown and confirmed before it is done.
package frontendmcp
