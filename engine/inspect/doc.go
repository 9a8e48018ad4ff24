// Package inspect will read the data directory of a stopped node for the offline tools: what is in each file, what is
// damaged, where a message is or was. It is not built yet.
//
// It will open files for reading only, through engine/vfs, and will hold no lock that could keep a node from starting.
package inspect
