package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/tools/cli"
)

// TestChangeOutcomes: what a node that leads answers is a refusal unless it says that it does not know what came of the change.
func TestChangeOutcomes(t *testing.T) {
	unknown := errors.New("it may have been done, or is done in part, and can be asked for again: timeout")
	require.Equal(t, cli.OutcomeUnknown, cli.Code(changeError(unknown)))
	require.Equal(t, cli.OutcomeUnknown, cli.Code(changeError(fmt.Errorf("raft group 2: %w", unknown))))
	require.Equal(t, cli.Usage, cli.Code(changeError(errors.New("replication: node 4 is a member"))))
}
