package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/tools/client"
)

// TestConfigureHasEveryOption holds the flags of "queue configure" against the API's own document.
func TestConfigureHasEveryOption(t *testing.T) {
	n := runNode(t, t.TempDir(), nil)
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	n.must(200, "GET", "/openapi.json", nil, &doc)
	require.ElementsMatch(t, slices.Collect(maps.Keys(doc.Components.Schemas["Options"].Properties)), client.OptionNames())
}
