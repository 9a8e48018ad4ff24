package machine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/format"
)

// TestUnsealedBehindTheOrder: once a queue is to encrypt, a frame that was encoded before is refused wherever it comes
// in the log, in the same entry too, and nothing of it is remembered; sealed ones are taken, and anything is again when
// the order is taken back.
func TestUnsealedBehindTheOrder(t *testing.T) {
	r := newRig(t)
	configure := func(on bool) {
		r.buf.AddConfigure(&format.Configure{Tenant: format.DefaultTenant, Queue: []byte("q"),
			Patch: format.QueueOptions{Set: format.OptEncryptionEnabled, EncryptionEnabled: on}})
	}
	push := func(id string, sealed bool) {
		msgs := []format.FrameMessage{{Payload: []byte("x")}}
		frame := testFrame(msgs)
		if sealed {
			frame = format.BeginSeal(frame, 1, make([]byte, format.SealNonce))
			format.EndSeal(frame)
		}
		hash := format.HashID(hashKey, []byte(id))
		r.buf.AddAppend(&format.Append{Tenant: format.DefaultTenant, Queue: []byte("q"), Partition: []byte("p"),
			Frame: format.FrameNative, Count: 1, IDs: format.IDsAll, Hashes: hash[:]}, frame)
	}
	codes := func() (all []format.Code) {
		for _, res := range r.apply().Items {
			all = append(all, res.Code)
		}
		return all
	}
	push("a", false)
	configure(true)
	push("b", false)
	push("c", true)
	require.Equal(t, []format.Code{format.CodeOK, format.CodeOK, format.CodeEncryption, format.CodeOK}, codes())
	push("b", false)
	push("b", true)
	require.Equal(t, []format.Code{format.CodeEncryption, format.CodeOK}, codes())
	p, ok := r.m.PartitionByName(format.DefaultTenant, "q", "p")
	require.True(t, ok)
	require.EqualValues(t, 3, p.Next, "a refused frame took an offset")
	configure(false)
	push("d", false)
	push("e", true)
	require.Equal(t, []format.Code{format.CodeOK, format.CodeOK, format.CodeOK}, codes())
	tenant, queue, partition, ok := r.m.OwnerOf(p.ID)
	require.True(t, ok)
	require.Equal(t, []any{format.DefaultTenant, "q", "p"}, []any{tenant, queue, partition})
	_, _, _, ok = r.m.OwnerOf(p.ID + 1000)
	require.False(t, ok)
}
