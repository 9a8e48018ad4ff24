package client

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// openapiCommand prints the node's own description of its API.
func openapiCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "openapi", Short: "Print the OpenAPI document of the node", Args: cobra.NoArgs}
	return rowCommand(s, cmd, "json", []string{"openapi", "info", "paths"}, func(s *session, out *cli.Printer[row], _ []string) error {
		answer, err := s.Ask(get("/openapi.json"), "openapi")
		if err != nil {
			return err
		}
		var paths map[string]map[string]struct{ Summary string }
		if err := json.Unmarshal(answer["paths"], &paths); err != nil {
			return cli.Errorf(cli.Server, "paths: %w", err)
		}
		return out.Detail(answer, routePairs(paths))
	})
}

// routePairs are the routes of a document for people.
func routePairs(paths map[string]map[string]struct{ Summary string }) (pairs [][2]string) {
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, method := range slices.Sorted(maps.Keys(paths[path])) {
			pairs = append(pairs, [2]string{strings.ToUpper(method) + " " + path, paths[path][method].Summary})
		}
	}
	return pairs
}
