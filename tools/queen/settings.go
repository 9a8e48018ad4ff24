package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"queen/tools/cli"
	"queen/tools/config"
	"queen/tools/contexts"
)

// configCommand prints the settings that a serve with the same flags, environment and file would run with.
func configCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show settings of a node, and names for nodes"}
	show := &cobra.Command{Use: "print", Short: "Print every setting as a serve would take it", Args: cobra.NoArgs}
	sources := show.Flags().Bool("sources", false, "also print where each value comes from")
	changed := show.Flags().Bool("changed", false, "leave out what is at its default")
	format := show.Flags().StringP("output", "o", "", strings.Join(cli.Formats, ", "))
	config.AddFlags(show.Flags())
	show.RunE = func(cmd *cobra.Command, _ []string) error {
		as, err := cli.CheckFormat(*format, "table", s.Out)
		if err != nil {
			return err
		}
		resolved, err := config.Load(config.Input{Flags: cmd.Flags(), Environ: s.Env})
		if err != nil {
			return err
		}
		columns := []cli.Column[settingRow]{
			{Head: "key", Cell: func(r settingRow) string { return r.Key }},
			{Head: "value", Cell: func(r settingRow) string { return r.Value }},
		}
		if *sources {
			columns = append(columns,
				cli.Column[settingRow]{Head: "source", Cell: func(r settingRow) string { return r.Source }})
		}
		p := cli.NewPrinter(s.Out, as, columns)
		for _, v := range resolved.Values {
			if *changed && !v.Changed {
				continue
			}
			row := settingRow{Key: v.Key, Value: v.Text}
			if *sources {
				row.Source = v.Source
			}
			if err := p.Add(row); err != nil {
				return err
			}
		}
		for _, w := range resolved.Warnings {
			warn(s, w)
		}
		return p.Close()
	}
	cmd.AddCommand(show)
	cmd.AddCommand(contexts.Commands(s, func(path string) error { return checkSettings(s, path) })...)
	return cmd
}

// checkSettings reads a file of settings as a serve would, with nothing else to say what they are.
func checkSettings(s cli.Streams, path string) error {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(flags)
	if err := flags.Set("config", path); err != nil {
		return err
	}
	resolved, err := config.Load(config.Input{Flags: flags})
	if err != nil {
		return err
	}
	for _, w := range resolved.Warnings {
		warn(s, w)
	}
	return nil
}

type settingRow struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source,omitempty"`
}

func warn(s cli.Streams, text string) {
	_, _ = s.Err.Write([]byte("queen: " + strings.TrimSpace(text) + "\n"))
}
