// Package frontendmcp is the MCP server of a node: what a coding agent, or any other client of the Model Context
// Protocol, can ask about the broker and, where its operator allows it, do to it.
//
// The official SDK speaks the protocol, over HTTP without sessions, in its current and its earlier revisions on one URL,
// and over any stream for "queen mcp stdio". Everything that an answer says about the broker comes through
// engine.Engine; what explains the product comes from pages that the composition root hands over.
//
// A tool is a row of the registry (registry.go): a name, what it needs of mode, toolset and role, and a function from
// typed arguments to a typed answer. A tool that a caller may not use is not in the server that the caller talks to, so
// that it can neither be listed nor called. What messages say, and how producers named things, is data of strangers: it
// appears in typed fields of answers and nowhere else.
package frontendmcp
