package replication

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/lni/dragonboat/v4"

	"queen/engine"
)

// TestMayBeDone: what is told of changes whose outcome nobody knows, also by way of another node.
func TestMayBeDone(t *testing.T) {
	for _, x := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{changeOutcome(nil), false},
		{changeOutcome(dragonboat.ErrTimeout), true},
		{changeOutcome(dragonboat.ErrShardClosed), true},
		{changeOutcome(dragonboat.ErrClosed), true},
		{changeOutcome(dragonboat.ErrCanceled), true},
		{changeOutcome(dragonboat.ErrAborted), true},
		{changeOutcome(fmt.Errorf("so: %w", context.DeadlineExceeded)), true},
		{changeOutcome(dragonboat.ErrRejected), false},
		{changeOutcome(dragonboat.ErrShardNotReady), false},
		{changeOutcome(dragonboat.ErrSystemBusy), false},
		{askedOutcome(nil), false},
		{askedOutcome(&net.OpError{Op: "dial", Err: errors.New("refused")}), false},
		{askedOutcome(&net.OpError{Op: "read", Err: errors.New("reset")}), true},
		{askedOutcome(refusal("node 9 is no member")), false},
		{fmt.Errorf("raft group 2: %w", askedOutcome(refusal(changeOutcome(dragonboat.ErrTimeout).Error()))), true},
		{rowOutcome(&engine.Error{Outcome: engine.OutcomeUnknown}), true},
		{rowOutcome(&engine.Error{}), false},
		{rowOutcome(nil), false},
	} {
		if got := MayBeDone(x.err); got != x.want {
			t.Errorf("%v: %v", x.err, got)
		}
	}
	if err := changeOutcome(dragonboat.ErrTimeout); !errors.Is(err, dragonboat.ErrTimeout) {
		t.Error(err)
	}
}
