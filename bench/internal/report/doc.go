// Package report is how the programs of bench say what they measured: named numbers with units and the conditions they
// were measured under, as lines for people or, with --json, as one JSON object that bench/run reads.
//
// Read first: Report.
package report
