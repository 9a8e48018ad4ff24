package main

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// version is the one place that names the version.
const version = "0.1.0"

// build says which build this is.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

var buildColumns = []cli.Column[build]{
	{Head: "version", Key: true, Cell: func(b build) string { return b.Version }},
	{Head: "commit", Cell: func(b build) string { return b.Commit }},
	{Head: "go", Cell: func(b build) string { return b.Go }},
	{Head: "os", Cell: func(b build) string { return b.OS }},
	{Head: "arch", Cell: func(b build) string { return b.Arch }},
}

func thisBuild() build {
	b := build{Version: version, Commit: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = s.Value
			}
		}
	}
	return b
}

func versionCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs}
	format := cmd.Flags().StringP("output", "o", "text", "text, "+strings.Join(cli.Formats, ", "))
	cmd.RunE = func(*cobra.Command, []string) error {
		b := thisBuild()
		if *format == "text" {
			_, err := fmt.Fprintf(s.Out, "queen %s (%s %s/%s)\n", b.Version, b.Go, b.OS, b.Arch)
			return err
		}
		as, err := cli.CheckFormat(*format, "json", s.Out)
		if err != nil {
			return err
		}
		p := cli.NewPrinter(s.Out, as, buildColumns)
		return errors.Join(p.One(b), p.Close())
	}
	return cmd
}
