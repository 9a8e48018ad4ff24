// Package wire is the connection layer beneath the native HTTP frontend: a listener that wraps every accepted
// connection, and a fiber server set up to run on it.
//
// fasthttp reads one request, runs the handler, writes the answer and drops the write's error. Between those steps it
// tells nobody that the client went away, and a broker needs to know: a parked pop whose client is gone must not claim
// messages, and a claim whose answer never arrived should be handed back before its lease runs out. The package adds
// what is missing from below, without touching the request loop:
//
//   - Conn.Park tells a waiting handler, within milliseconds, that its client closed, reset or half-closed.
//   - Conn.Alive is the last look before a claim. It is not optional: an answer and a close that arrive together are
//     picked at random by a select.
//   - Conn.Deliver reports once whether the answer is known to have failed (rules at Delivery verdicts, delivery.go).
//   - Conn.LingerOnClose lets a client that is still uploading read its 413 instead of a connection reset.
//   - Takeover turns the connection of a request into a Stream that holds neither the request nor its buffers, and
//     Stream.Await gives the goroutine back that would wait for its client's next word.
//   - Listener survives a full descriptor table, caps connections with a 503, and drains.
//
// What it does not do: it knows no route, no queue and no lease; it never reads ahead of fasthttp; a positive delivery
// verdict proves only that the peer's kernel had the bytes.
//
// Concurrency: one goroutine serves a connection at a time (fasthttp's), and only it calls Read and Write; a Stream has
// at most one goroutine for each. Close may come from any goroutine. One more goroutine per Listener sits in the
// kernel's event queue. Callbacks run on whichever of these saw the event, without locks held, and must not block.
//
// Pipelining: fasthttp holds a finished answer back while another request is already buffered, so a push would wait for
// the long poll behind it. NewServer sets a write deadline on every answer, which makes fasthttp flush each one.
//
// INVARIANT: every answer is flushed before the next read and before the next handler of its connection
// (TestPipelinedAnswersAreNotHeldBack). The verdict rules rest on it.
//
// Read first: Listener, Conn, Server.
package wire
