// Package remote is a command that talks to a node: which node and as whom, the calls themselves, and the exit code of
// every way in which a call can fail.
//
// The rules: flags win over the environment, the environment over the context of the user's file. A credential of a context
// goes to the node of that context and to no other. A write whose answer was lost may have been carried out, and exits so;
// a call that reached nobody has done nothing.
//
// The package knows no command and no route. Nothing in it is safe for concurrent use but API.Call and API.Open.
//
// Read first: Command, Conn, API.Call, Contexts.
package remote
