// Package errorfs wraps a vfs.FS and makes it fail on purpose: the n-th call that matches a rule, every call that
// does, a write that stops half way, a flush that fails once, a range that can not be read, a bit that has rotted.
//
// It promises that a call which no rule matches is passed on unchanged, that rules see calls in the order in which
// they are made, and that a failed Sync or WriteAtSync over vfs.Mem leaves what the kernel leaves: bytes that are
// visible, may be lost, and are not made durable by a later Sync that succeeds.
//
// It deliberately knows no scenario: "fail the n-th write for all n" is a loop in the test, around Rule.Nth and
// FS.Count.
//
// Concurrency: rules may be added and counts read while calls run. A Match function must not call back into the FS.
//
// Read Rule (rule.go) first.
package errorfs
