package main

import (
	"fmt"

	"queen/engine/mask"
	"queen/tools/config"
)

// masksOf are the rules of mcp.mask, which hold for every frontend that shows messages; nil where there are none.
func masksOf(setting []config.MCPMask) (*mask.Set, error) {
	var rules []mask.Rule
	for _, m := range setting {
		rules = append(rules, mask.Rule{Queue: *m.Queue, Pointer: *m.JSONPointer})
	}
	set, err := mask.New(rules)
	if err != nil {
		return nil, fmt.Errorf("mcp.mask: %w", err)
	}
	return set, nil
}
