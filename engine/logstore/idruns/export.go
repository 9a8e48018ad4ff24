package idruns

import "queen/engine/format"

// FileName is the name of a listed run of a raft group.
func FileName(g format.RaftGroup, f *format.ManifestFile) string { return runName(g, f.First, f.Last) }
