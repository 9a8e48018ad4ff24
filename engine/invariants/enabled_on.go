//go:build invariants || race

package invariants

// Enabled says whether expensive checks are compiled in.
const Enabled = true
