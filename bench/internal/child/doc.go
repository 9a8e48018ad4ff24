// Package child runs another program that goes when this process goes, whatever way that is, and whose end can be waited for.
// Programs are ended by the process that was started, never by a name.
package child
