package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// readyFile is what --ready-file holds: the process and the bound address of each frontend that runs.
type readyFile struct {
	PID   int    `json:"pid"`
	HTTP  string `json:"http,omitempty"`
	Kafka string `json:"kafka,omitempty"`
	MCP   string `json:"mcp,omitempty"`
}

// clearReady removes the file of an earlier run, so that nobody takes it for this one's.
func clearReady(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("ready.file: %w", err)
	}
	return nil
}

// writeReady writes the file so that a reader finds all of it or none.
func writeReady(path string, r readyFile) error {
	if path == "" {
		return nil
	}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("ready.file: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".ready-*")
	if err != nil {
		return fmt.Errorf("ready.file: %w", err)
	}
	defer os.Remove(tmp.Name()) // gone after the rename
	_, err = tmp.Write(append(data, '\n'))
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(tmp.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("ready.file: %w", err)
	}
	return nil
}
