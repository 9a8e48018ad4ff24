// Package lossyfs is a file system in user space over a directory, on which a crash loses what was written and not
// flushed, as a disk does that loses its cache. What kill -9 can not show, since the kernel keeps a dead process's writes.
//
// It keeps, for every file, the bytes that each write replaced until a flush of that file; a crash puts them back. Names
// (create, rename, unlink) are kept. With Lie a flush is answered and does nothing: a node on it is a node whose flushes
// were taken out. Delay makes flushes slow.
package lossyfs
