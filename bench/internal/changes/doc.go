// Package changes reads the stream of file changes that the campaigns replay: one JSON object a line, with the file it is
// about, the version the file is at afterwards, and the change it belongs to.
package changes
