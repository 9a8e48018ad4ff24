// Package frontendhttp is the native HTTP API: it turns requests into calls on engine.Engine and results into the
// JSON that Queen clients read. It knows statuses, field names and headers; it knows no file, no index and no raft.
//
// One table of routes (table.go) routes, documents (/openapi.json) and is walked by a test; a route of the contract
// without a handler answers 501 not_built. The life of a request: the wire package reads it, the router finds its
// table row and decodes the names in the path once, Frontend.run finds the caller and the engine, the handler decodes
// the body, calls the engine, and appends the answer straight into the response's buffer. What a handler returns as an
// error is put on the wire by errmap.go and nowhere else.
//
// Strings and bytes of a request live until its handler returns. What the engine may keep (names, ids, groups) is
// copied when it is decoded; payloads are not, because the engine copies them before Do returns.
//
// A parked pop holds no lock, writes nothing and ends when the client hangs up, its timeout passes or Shutdown begins.
// A claim ends in exactly one of Delivered and Abandon, by the verdict of the connection (wire.Conn.Deliver).
//
// Streams (consume*.go, sse.go, kv_watch.go) take their connection over from the request loop once their row has let
// them in; what they keep is a copy. They end with their client, with a client that takes nothing, and at Shutdown. An
// idle one is one goroutine, parked in the engine.
//
// Every row carries its access level; call.identify (auth.go, tenant.go) is the one place where a principal comes from,
// and it comes before anything else a row does. It does not judge the address it is bound to.
//
// Concurrency: a Frontend is safe for concurrent use; one goroutine serves a request from start to end.
//
// Read first: Frontend (frontend.go), route (route.go), errmap.go, pushBody (push_decode.go).
package frontendhttp
