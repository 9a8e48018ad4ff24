package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/keyed"
	"queen/engine/machine"
)

// Goal: the state machine numbers the families of keyed rows as the store does: its rows
// go to the store as they are, and the sums of both are compared at open.
func TestFamiliesAreTheStores(t *testing.T) {
	for family, want := range map[byte]keyed.Family{
		machine.FamilyKV: keyed.FamilyKV, machine.FamilyTimer: keyed.FamilyTimer, machine.FamilyDeadLetter: keyed.FamilyDeadLetter,
		machine.FamilyOnce: keyed.FamilyIdempotency, machine.FamilyPosition: keyed.FamilyPosition,
	} {
		require.Equal(t, want, keyed.Family(family))
	}
}
