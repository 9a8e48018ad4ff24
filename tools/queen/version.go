package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

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
	format := cmd.Flags().StringP("output", "o", "text", "text, json or yaml")
	cmd.RunE = func(*cobra.Command, []string) error {
		b := thisBuild()
		switch *format {
		case "text":
			_, err := fmt.Fprintf(s.Out, "queen %s (%s %s/%s)\n", b.Version, b.Go, b.OS, b.Arch)
			return err
		case "json", "yaml":
			return cli.NewPrinter[build](s.Out, *format, nil).One(b)
		}
		return cli.Errorf(cli.Usage, "-o %s: there are text, json, yaml", *format)
	}
	return cmd
}
