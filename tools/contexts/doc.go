// Package contexts holds the subcommands about contexts, which are names for nodes in the file of a user, and the check of
// that file: who may read and change it, and whether what it names is there.
//
// The file itself is read and written by tools/remote. Nothing here calls a node. What others may change is told as
// critical, because a context can name a command that is run for its token; what others may read is a warning.
//
// One command runs per process, in one goroutine.
//
// Read first: Commands, Check, Finding.
package contexts
