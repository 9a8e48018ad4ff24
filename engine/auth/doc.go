// Package auth will say who calls and what they may do: principals, tokens, API keys, roles and quotas, as a leaf that
// frontends use before they call the engine. It is not built yet: a node authenticates nobody, listens on loopback unless
// it is told --insecure, and refuses the settings of tokens by name.
package auth
