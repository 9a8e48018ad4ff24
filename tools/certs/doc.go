// Package certs makes the TLS side of every listener from files: one certificate for all of them, and optionally the
// authorities that callers' certificates must come from. Between the nodes of a cluster both sides are made here.
//
// It promises TLS 1.2 or newer, and that a renewed certificate is used by the next handshake at most a second after its
// files changed, or at once after Reload, without a connection being cut. Files that do not fit together are refused at
// the start and ignored, with a line in the log, later.
//
// It deliberately knows no principal: a caller's certificate opens the connection and says nothing about who calls.
//
// Read first: Options, Store.
package certs
