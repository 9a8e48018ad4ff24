package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"queen/engine/auth"
	"queen/engine/clock"
	"queen/tools/cli"
	"queen/tools/client"
)

// authCommand makes API keys, which needs no node: keys are entries of a file; and keeps the token of who calls nodes.
func authCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "auth", Short: "Make API keys, and keep the token that commands send"}
	cmd.AddCommand(newKeyCommand(s), hashKeyCommand(s))
	cmd.AddCommand(client.AuthCommands(s)...)
	return cmd
}

// keyEntry is an entry of the file that auth.keys names.
type keyEntry struct {
	Name    string     `yaml:"name" json:"name"`
	Hash    string     `yaml:"hash" json:"hash"`
	Roles   []string   `yaml:"roles,flow" json:"roles"`
	Tenant  string     `yaml:"tenant,omitempty" json:"tenant,omitempty"`
	Expires *time.Time `yaml:"expires,omitempty" json:"expires,omitempty"`
}

// newKey is a key with its entry.
type newKey struct {
	Key   string   `json:"key"`
	Entry keyEntry `json:"entry"`
}

func newKeyCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "new-key NAME", Short: "Make an API key and the entry of the key file for it", Args: cobra.ExactArgs(1),
		Long: `Make an API key. The key goes to standard output once and is kept nowhere; the entry, which holds its hash only,
belongs under "keys:" in the file that the setting auth.keys names. A running node takes it within a second.`,
	}
	roles := cmd.Flags().StringSlice("role", []string{"read-write"}, "read-only, write-only, read-write or admin")
	tenant := cmd.Flags().String("tenant", "", `tenant of the key, or "*" for a gateway; the default tenant when empty`)
	expires := cmd.Flags().String("expires", "", "when the key ends, such as 2027-01-31T00:00:00Z; never when empty")
	format := cmd.Flags().StringP("output", "o", "text", "text or json")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		k := newKey{Entry: keyEntry{Name: args[0], Roles: *roles, Tenant: *tenant}}
		if *expires != "" {
			at, err := time.Parse(time.RFC3339, *expires)
			if err != nil {
				return cli.Errorf(cli.Usage, "--expires %s: want a time such as 2027-01-31T00:00:00Z", *expires)
			}
			k.Entry.Expires = &at
		}
		k.Key, k.Entry.Hash = auth.NewKey(clock.RealRand().Fill)
		entry, err := yaml.Marshal([]keyEntry{k.Entry})
		if err == nil {
			err = auth.CheckKeys(append([]byte("keys:\n"), entry...))
		}
		if err != nil {
			return cli.Errorf(cli.Usage, "%w", err)
		}
		switch *format {
		case "text":
			_, err = fmt.Fprintf(s.Out, "%s\n\n%s", k.Key, entry)
			return err
		case "json":
			return cli.NewPrinter[newKey](s.Out, *format, nil).One(k)
		}
		return cli.Errorf(cli.Usage, "-o %s: there are text, json", *format)
	}
	return cmd
}

// keyInputMax bounds what hash-key reads.
const keyInputMax = 4096

func hashKeyCommand(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use: "hash-key", Short: "Print the hash of an API key that is read from standard input", Args: cobra.NoArgs,
		Long: `Print the hash of an API key for the key file. The key is read from standard input, because arguments can be seen
by everybody on the machine.`,
		RunE: func(*cobra.Command, []string) error {
			data, err := io.ReadAll(io.LimitReader(s.In, keyInputMax))
			if err != nil {
				return err
			}
			key := strings.TrimSpace(string(data))
			if err := auth.CheckKey(key); err != nil {
				return cli.Errorf(cli.Usage, "%w", err)
			}
			_, err = fmt.Fprintln(s.Out, auth.HashKey(key))
			return err
		},
	}
}
