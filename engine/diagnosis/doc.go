// Package diagnosis tells what is wrong with a node and its queues, and why messages wait, as findings with evidence and
// a next step. It is a fixed checklist over engine.Engine: every frontend that explains something explains it alike.
//
// It promises: it proposes nothing and changes nothing; names of the broker's objects stand in their own fields, never in
// a text, since producers choose them; what is not a problem by its nature is told as info or not at all.
//
// It does not watch: a call looks once. Rows are bounded (scanMax), so a tenant with more partitions behind than that is
// judged by the ones furthest behind.
//
// Functions may be called concurrently.
//
// Read first: Run, Look, Alarms.
package diagnosis
