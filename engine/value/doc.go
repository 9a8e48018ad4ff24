// Package value is what the broker knows of the values of keys: they are JSON text, kept without the space
// between tokens, and those that are numbers can be counted with.
//
// It knows no limits and stores nothing. Everything is a pure function.
package value
