package frontendmcp

import "github.com/modelcontextprotocol/go-sdk/mcp"

// askPerson ends a call by a question to the person behind the client.
type askPerson struct{ result *mcp.CallToolResult }

func (*askPerson) Error() string { return "a person is asked" }

// judge records what became of a write.
func (c *call) judge(any, error) {}
