package frontendmcp

// ToolInfo is a tool, for documentation.
type ToolInfo struct {
	Name, Title, Text, Toolset string
	Mode                       Mode
	Level                      string
	Destructive, Idempotent    bool
}

// Tools lists every tool by name, whatever a node offers of them.
func Tools() (out []ToolInfo) {
	for _, t := range registry() {
		out = append(out, ToolInfo{t.name, t.title, t.text, t.toolset, t.mode, string(t.level), t.destructive, t.idempotent})
	}
	return out
}

// PromptInfo is a prompt, for documentation.
type PromptInfo struct {
	Name, Text string
	Args       []string
}

// Prompts lists every prompt.
func Prompts() (out []PromptInfo) {
	for _, p := range prompts {
		out = append(out, PromptInfo{p.name, p.about, p.args})
	}
	return out
}

// ResourceInfo is a resource or a template of some, for documentation.
type ResourceInfo struct{ URI, Text string }

// Resources lists every resource beside the pages.
func Resources() (out []ResourceInfo) {
	for _, r := range live {
		out = append(out, ResourceInfo{r.uri, r.text})
	}
	return append(out, ResourceInfo{"queen://openapi", "The HTTP API."}, ResourceInfo{"docs://{page}", "A page of the documentation."})
}
