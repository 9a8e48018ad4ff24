// Package procfs reads what the kernel counts about a run: flushes and writes of the disk that holds a directory, memory,
// processor time and descriptors of a process, and the bytes of a directory. The counters of a disk are those of
// the whole machine: whoever else writes to it is in them.
//
// Read first: Disk, Process.
package procfs
