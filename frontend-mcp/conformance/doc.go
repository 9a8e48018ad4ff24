// Command conformance is the MCP frontend without a broker and with the fixtures that the public conformance suite calls:
// transport, guards and middleware are the frontend's own. bench/mcp/conformance.sh runs the suite against it.
package main
