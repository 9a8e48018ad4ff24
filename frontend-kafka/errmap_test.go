package frontendkafka

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"queen/engine"
)

// Goal: no code of the engine reaches a client by accident.
func TestCodes(t *testing.T) {
	require.Len(t, codes, len(engine.Codes))
	for _, c := range engine.Codes {
		k := codes[c]
		require.NotNil(t, k, c)
		require.NotZero(t, k.Code, c)
		require.Equal(t, k.Code, codeOf(fmt.Errorf("x: %w", &engine.Error{Code: c})))
	}
	// No message is too large where the state has no room: clients would split their batches.
	full := &engine.Error{Code: engine.CodeTooLarge, Cause: engine.ErrStateLimit}
	require.Equal(t, kerr.PolicyViolation.Code, produceCode(full))
	require.Equal(t, kerr.PolicyViolation.Code, controllerCode(full))
	require.Equal(t, kerr.MessageTooLarge.Code, produceCode(&engine.Error{Code: engine.CodeTooLarge}))
	var none *engine.Error
	require.Zero(t, codeOf(nil))
	require.Zero(t, codeOf(none))
	require.Nil(t, textOf(none))
	require.Equal(t, kerr.RequestTimedOut.Code, codeOf(context.DeadlineExceeded))
	require.Equal(t, kerr.UnknownServerError.Code, codeOf(errors.New("x")))
	f := &fault{kerr.InvalidConfig, "because"}
	require.Equal(t, kerr.InvalidConfig.Code, codeOf(f))
	require.Equal(t, "because", *textOf(f))
}
