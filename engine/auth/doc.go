// Package auth says who calls and what they may do: principals and their roles, tokens, API keys. It is a leaf that
// every frontend uses before it calls the engine; it knows no route, no queue and no wire.
//
// What it promises: a credential is either turned into a Principal or refused with a Reason; nothing is guessed. A
// token is judged by the keys whose kind fits its algorithm, so a public key can never serve as a secret; a key that
// was taken out of a file or a key set stops working with the next reload, also for tokens judged before. Secrets of
// API keys are kept as hashes only, and compared in constant time.
//
// What it deliberately does not do: it issues no tokens, keeps no sessions, and writes nothing.
//
// Levels are a set, not a ladder: write-only does not include reading, and read-only does not include writing
// (S-acc-1). A principal acts for its own tenant; a request may narrow a principal of several tenants to one of them,
// never choose another.
//
// Concurrency: everything is safe for concurrent use. Nothing waits but Authenticate for a token whose key is not
// known yet, within its context, while the key set is fetched.
//
// Read first: Principal, Authenticator, Tokens, Keys.
package auth
