//go:build !faults

package main

import "queen/engine/clock"

// systemClock is the node's clock.
func systemClock() clock.Clock { return clock.Real() }
