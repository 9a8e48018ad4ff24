// Package live keeps a value that is made from files and follows them: certificates, keys, plans. Whoever uses the value
// asks for it each time; at most once in a while that looks whether a file has changed and reads it again.
//
// It promises that a value was valid as a whole: a file that is gone, half written or wrong changes nothing but the
// error that is reported, and is looked at again. It runs no goroutine and watches no directory, because mounted
// secrets are swapped by renaming directories above them.
//
// Concurrency: a Value is safe for concurrent use; Get takes no lock unless it is time to look.
//
// Read first: Value.
package live
