package main

import (
	"bytes"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"queen/tools/cli"
	"queen/tools/docs"
)

// docsCommand prints the pages that are in the binary.
func docsCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "docs [PAGE]", Short: "List the pages of the documentation, or print one as markdown", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []string, d cobra.ShellCompDirective) {
			for _, p := range docs.Pages() {
				if len(args) == 0 {
					names = append(names, p.Name)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		}}
	columns := []cli.Column[docsPage]{
		{Head: "name", Key: true, Cell: func(p docsPage) string { return p.Name }},
		{Head: "title", Cell: func(p docsPage) string { return p.Title }},
		{Head: "summary", Wide: true, Cell: func(p docsPage) string { return p.Summary }},
	}
	return cli.Command(s, cmd, "ndjson", columns, func(inv *cli.Invocation, out *cli.Printer[docsPage], args []string) error {
		if len(args) == 1 {
			p, ok := docs.Find(args[0])
			if !ok {
				return cli.Errorf(cli.Usage, "there is no page %s: docs lists them", args[0])
			}
			out.Silence()
			_, err := inv.Out.Write([]byte(p.Text))
			return err
		}
		for _, p := range docs.Pages() {
			if err := out.Add(docsPage{Name: p.Name, Title: p.Title, Summary: p.Summary}); err != nil {
				return err
			}
		}
		return nil
	})
}

// docsPage is a page in the list.
type docsPage struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Summary string `json:"summary"`
}

// manCommand prints manual pages, which are made of the commands themselves.
func manCommand(s cli.Streams) *cobra.Command {
	var dir string
	cmd := &cobra.Command{Use: "man [COMMAND...]", Short: "Print the manual page of a command, or write all into a directory",
		Long: `Print the manual page of a command for man:

  queen man queue delete | man -l -
  queen man --dir /usr/local/share/man/man1`}
	cmd.Flags().StringVar(&dir, "dir", "", "write the pages of all commands into this directory, which must be there")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		root := cmd.Root()
		header := &doc.GenManHeader{Title: "QUEEN", Section: "1", Source: "queen " + version, Manual: "Queen"}
		if dir != "" {
			if len(args) > 0 {
				return cli.Errorf(cli.Usage, "--dir writes the pages of all commands: name none")
			}
			if _, err := os.Stat(dir); err != nil {
				return cli.Errorf(cli.Usage, "--dir: %w", err)
			}
			if err := doc.GenManTree(root, header, dir); err != nil {
				return cli.Errorf(cli.Usage, "%w", err)
			}
			return nil
		}
		found, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return cli.Errorf(cli.Usage, "there is no command %v", args)
		}
		var page bytes.Buffer
		if err := doc.GenMan(found, header, &page); err != nil {
			return err
		}
		_, err = s.Out.Write(page.Bytes())
		return err
	}
	return cmd
}
