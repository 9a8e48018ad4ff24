package contexts

import (
	"net/url"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

// row is a context as it is printed. Token is where the token is, never the token.
type row struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	URL     string `json:"url"`
	MCP     string `json:"mcp,omitempty"`
	Token   string `json:"token,omitempty"`
	CA      string `json:"ca,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
	DryRun  bool   `json:"dryRun,omitempty"`
}

var columns = []cli.Column[row]{
	{Head: "current", Cell: func(r row) string {
		if r.Current {
			return "*"
		}
		return ""
	}, Help: "what is used where no context is named"},
	{Head: "name", Cell: func(r row) string { return r.Name }, Key: true},
	{Head: "url", Cell: func(r row) string { return r.URL }},
	{Head: "mcp", Cell: func(r row) string { return r.MCP }, Wide: true, Help: "address of the MCP server, where it is not port 6633 of url's host"},
	{Head: "token", Cell: func(r row) string { return r.Token }, Help: "where the token is: " + remote.TokenSources},
	{Head: "ca", Cell: func(r row) string { return r.CA }, Wide: true, Help: "PEM file of the authorities that https is checked with"},
}

func rowOf(f *remote.Contexts, c *remote.Context) row {
	return row{Name: c.Name, Current: f.Current == c.Name, URL: c.URL, MCP: c.MCP, Token: c.Token, CA: c.CA}
}

// Commands are those of "queen config" that are about contexts. settings checks a file of a node's settings, for
// "check -f".
func Commands(s cli.Streams, settings func(path string) error) []*cobra.Command {
	return []*cobra.Command{viewCommand(s), checkCommand(s, settings), useCommand(s), setCommand(s), deleteCommand(s)}
}

func viewCommand(s cli.Streams) *cobra.Command {
	return cli.Command(s, &cobra.Command{Use: "view", Short: "List the contexts", Args: cobra.NoArgs,
		Long: `List the contexts of the user's file, $XDG_CONFIG_HOME/queen/config.yaml or ~/.config/queen/config.yaml. Tokens are not
in it: a context says where its token is.`},
		"json", columns, func(inv *cli.Invocation, out *cli.Printer[row], _ []string) error {
			f, err := remote.LoadContexts(inv.Streams)
			if err != nil {
				return err
			}
			for i := range f.Contexts {
				if err := out.Add(rowOf(f, &f.Contexts[i])); err != nil {
					return err
				}
			}
			return nil
		})
}

func checkCommand(s cli.Streams, settings func(path string) error) *cobra.Command {
	cmd := &cobra.Command{Use: "check", Short: "Check the file of contexts, or a file of a node's settings", Args: cobra.NoArgs,
		Long: `Check the user's file of contexts: who may read and change it, and whether the addresses, tokens and certificates that it
names are there. With -f check a file of settings of a node instead, as "queen serve --config" would take it. Nothing is
called or run. Exits 5 on findings that are critical or warnings.`}
	path := cmd.Flags().StringP("file", "f", "", "check this file of a node's settings instead")
	return cli.Command(s, cmd, "json", Columns, func(inv *cli.Invocation, out *cli.Printer[Finding], _ []string) error {
		var found []Finding
		if *path == "" {
			found = Check(inv.Streams)
		} else if err := settings(*path); err != nil {
			found = []Finding{{"settings", Critical, "A node would not start with these settings", *path, []string{err.Error()},
				"Mend what is named; queen config print --sources shows where values come from."}}
		}
		if err := out.AddAll(found); err != nil {
			return err
		}
		return Exit(found)
	})
}

func useCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "use-context NAME", Short: "Make a context the one that is used where none is named",
		Args: cobra.ExactArgs(1), ValidArgsFunction: names(s)}
	var w cli.Write
	w.DryRunFlag(cmd)
	return cli.Command(s, cmd, "json", columns, func(inv *cli.Invocation, out *cli.Printer[row], args []string) error {
		f, err := remote.LoadContexts(inv.Streams)
		if err != nil {
			return err
		}
		c, err := f.Get(args[0])
		if err != nil || c == nil {
			return cli.Errorf(cli.Usage, "there is no context %q", args[0])
		}
		f.Current = c.Name
		return store(inv, out, f, rowOf(f, c), w)
	})
}

func setCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "set-context NAME", Short: "Add a context or change one", Args: cobra.ExactArgs(1), ValidArgsFunction: names(s),
		Long: `Add a context or change one; what is not named stays. The first one becomes the current one.

  queen config set-context prod --url https://queen.example:6632 --token-from env:QUEEN_PROD_TOKEN
  queen config set-context prod --token-from "exec:pass show queen/prod"`}
	var c remote.Context
	var w cli.Write
	fl := cmd.Flags()
	fl.StringVar(&c.URL, "url", "", "the node's address; a new context needs one")
	fl.StringVar(&c.MCP, "mcp", "", `address of the MCP server, for queen mcp; "" for http://HOST:6633/mcp of the node`)
	fl.StringVar(&c.Token, "token-from", "", "where the token is: "+remote.TokenSources+`; "" for none`)
	fl.StringVar(&c.CA, "ca", "", `PEM file of the authorities that certificates of https come from; "" for those of the system`)
	use := fl.Bool("use", false, "make it the current one")
	w.DryRunFlag(cmd)
	return cli.Command(s, cmd, "json", columns, func(inv *cli.Invocation, out *cli.Printer[row], args []string) error {
		f, err := remote.LoadContexts(inv.Streams)
		if err != nil {
			return err
		}
		merged, err := merge(f, args[0], &c, fl.Changed)
		if err != nil {
			return err
		}
		f.Put(merged)
		if *use || len(f.Contexts) == 1 {
			f.Current = merged.Name
		}
		return store(inv, out, f, rowOf(f, &merged), w)
	})
}

// merge puts what was named over what is there.
func merge(f *remote.Contexts, name string, c *remote.Context, named func(flag string) bool) (remote.Context, error) {
	merged := remote.Context{Name: name}
	for i := range f.Contexts {
		if f.Contexts[i].Name == name {
			merged = f.Contexts[i]
		}
	}
	if named("url") {
		merged.URL = c.URL
	}
	if named("mcp") {
		merged.MCP = c.MCP
	}
	if named("token-from") {
		merged.Token = c.Token
	}
	if named("ca") {
		merged.CA = c.CA
	}
	if err := checkAddress("url", merged.URL, "PORT"); err != nil {
		return merged, err
	}
	if merged.MCP != "" {
		if err := checkAddress("mcp", merged.MCP, "PORT/mcp"); err != nil {
			return merged, err
		}
	}
	if merged.Token != "" {
		if err := remote.CheckTokenSource(merged.Token); err != nil {
			return merged, cli.Errorf(cli.Usage, "--token-from: %w", err)
		}
	}
	return merged, nil
}

// checkAddress refuses what can be no address, and one that holds credentials.
func checkAddress(flag, text, end string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return cli.Errorf(cli.Usage, "--%s %s: want http://HOST:%s or https://HOST:%s", flag, text, end, end)
	case u.User != nil:
		return cli.Errorf(cli.Usage, "--%s: credentials do not belong into an address: use --token-from", flag)
	}
	return nil
}

func deleteCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "delete-context NAME", Short: "Delete a context", Args: cobra.ExactArgs(1), ValidArgsFunction: names(s),
		Long: `Delete a context from the user's file; nothing else is touched. Exits 4 when there is none of the name.`}
	var w cli.Write
	w.DryRunFlag(cmd)
	w.YesFlag(cmd)
	return cli.Command(s, cmd, "json", columns, func(inv *cli.Invocation, out *cli.Printer[row], args []string) error {
		f, err := remote.LoadContexts(inv.Streams)
		if err != nil {
			return err
		}
		c, err := f.Get(args[0])
		if err != nil || args[0] == "" {
			return nothing(out, row{Name: args[0]})
		}
		r := rowOf(f, c)
		if !w.DryRun {
			if err := inv.Confirm("This deletes context "+c.Name+", which leads to "+c.URL+".", c.Name, w); err != nil {
				return err
			}
			r.Deleted = f.Delete(c.Name)
		}
		return store(inv, out, f, r, w)
	})
}

// nothing prints what was not there and ends with Nothing.
func nothing(out *cli.Printer[row], r row) error {
	if err := out.One(r); err != nil {
		return err
	}
	return cli.Exit(cli.Nothing)
}

// store saves the file, unless nothing is to be done, and prints the context.
func store(inv *cli.Invocation, out *cli.Printer[row], f *remote.Contexts, r row, w cli.Write) error {
	r.DryRun = w.DryRun
	if !w.DryRun {
		if err := f.Save(inv.Streams); err != nil {
			return err
		}
	}
	return out.One(r)
}

// names completes the name of a context.
func names(s cli.Streams) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return remote.ContextNames(s), cobra.ShellCompDirectiveNoFileComp
	}
}
