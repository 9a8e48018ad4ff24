// Package client speaks the native HTTP API over one raw keep-alive connection, cheaply: requests are appended into
// buffers that are reused, answers are scanned in place. It is a load generator's client, not an SDK: it never retries,
// and what it returns is valid until the next call.
//
// A Conn belongs to one goroutine.
//
// Read first: Conn, Answer, Message.
package client
