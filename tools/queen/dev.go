package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/config"
)

func devCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "dev", Short: "Run a node for trying out", Args: cobra.NoArgs,
		Long: `Run a node with every frontend that is built, on loopback, in a directory under the user's cache. It is the
same durable node as serve, and takes the same settings.`,
	}
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := devDir()
		if err != nil {
			return err
		}
		resolved, err := config.Load(config.Input{Flags: cmd.Flags(), Environ: s.Env, Defaults: map[string]string{
			"data": dir, "frontends": strings.Join(config.BuiltFrontends, ","), "log.level": "warn",
		}})
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(resolved.Config.Data), 0o750); err != nil {
			return err
		}
		return serve(s, resolved, func(n *node) { greet(s, n) })
	}
	return cmd
}

func devDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("data: there is no cache directory (%w): name one with --data", err)
	}
	return filepath.Join(cache, "queen", "dev"), nil
}

// greet prints what to try next.
func greet(s cli.Streams, n *node) {
	url := "http://" + n.ready.HTTP
	if n.certs != nil {
		url = "https://" + n.ready.HTTP
	}
	fmt.Fprintf(s.Out, `Queen %s is ready at %s, data in %s
`, version, url, n.config.Data)
	if n.ready.Kafka != "" {
		fmt.Fprintf(s.Out, "Kafka clients: kcat -b %s -L\n", n.ready.Kafka)
	}
	if n.ready.MCP != "" {
		fmt.Fprintf(s.Out, "Coding agents: claude mcp add --transport http queen %s\n", mcpURL(n))
	}
	for _, f := range config.KnownFrontends {
		if !slices.Contains(config.BuiltFrontends, f) {
			fmt.Fprintf(s.Out, "The %s frontend is not built yet.\n", f)
		}
	}
	fmt.Fprintf(s.Out, `
Push to the partition of one customer:

  curl -s %[1]s/api/v1/push -d '{"items":[{"queue":"orders","partition":"customer-42","payload":{"order":9}}]}'

Take it as the consumer group billing, for 30 seconds:

  curl -s '%[1]s/api/v1/pop/queue/orders?consumerGroup=billing&subscriptionMode=all&leaseSeconds=30'

Acknowledge it with the partitionId, transactionId and leaseId of that answer:

  curl -s %[1]s/api/v1/ack -d '{"consumerGroup":"billing","partitionId":"...","transactionId":"...","leaseId":"..."}'

README.md goes on from here. Ctrl-C drains and stops the node; the data stays.
`, url)
}

// mcpURL is where MCP clients connect.
func mcpURL(n *node) string {
	if n.certs != nil {
		return "https://" + n.ready.MCP + "/mcp"
	}
	return "http://" + n.ready.MCP + "/mcp"
}
