package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPartsOfACallFailTogether: a call with two parts never says that nothing was done while one of them was or may be.
func TestPartsOfACallFailTogether(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	waiting := func() *submission { return newSubmission(writing) }
	taken := func() *submission {
		s := waiting()
		s.state.Store(subTaken)
		return s
	}
	applied := func() *submission {
		s := taken()
		close(s.done)
		return s
	}
	for name, c := range map[string]struct {
		subs []*submission
		want Outcome
	}{
		"both wait":                  {[]*submission{waiting(), waiting()}, OutcomeNone},
		"the second is in an entry":  {[]*submission{waiting(), taken()}, OutcomeUnknown},
		"the second was applied":     {[]*submission{waiting(), applied()}, OutcomeUnknown},
		"the first was applied":      {[]*submission{applied(), waiting()}, OutcomeUnknown},
		"the first is in an entry":   {[]*submission{taken(), waiting()}, OutcomeUnknown},
		"one part, in no entry":      {[]*submission{waiting()}, OutcomeNone},
		"one part, which is in some": {[]*submission{taken()}, OutcomeUnknown},
	} {
		err := waitAll(over, c.subs)
		require.Equal(t, c.want, err.Outcome, name)
		for _, s := range c.subs {
			require.NotEqual(t, subWaiting, s.state.Load(), "%s: a part is left that would be proposed later", name)
		}
	}
	require.Nil(t, waitAll(over, []*submission{applied(), applied()}))
}
