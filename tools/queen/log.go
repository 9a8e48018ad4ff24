package main

import (
	"log/slog"

	"queen/tools/cli"
	"queen/tools/config"
)

// newLogger writes text or JSON lines to standard error, from a level on. Nothing is logged per message.
func newLogger(s cli.Streams, c *config.Config, from slog.Level) *slog.Logger {
	opts := &slog.HandlerOptions{Level: from}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(s.Err, opts))
	}
	return slog.New(slog.NewTextHandler(s.Err, opts))
}
