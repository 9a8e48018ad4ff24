package engine_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/seal"
	"queen/engine/vfs"
)

// vault is a node whose keys a test changes.
type vault struct {
	*rig
	ring *seal.Ring
}

func ringOf(t testing.TB, ids ...byte) *seal.Ring {
	t.Helper()
	text := "keys:\n"
	for _, id := range ids {
		text += fmt.Sprintf("  - {id: %d, key: %s}\n", id, hex.EncodeToString(bytes.Repeat([]byte{id, 0xa5}, seal.KeyBytes/2)))
	}
	r, err := seal.ParseRing([]byte(text))
	require.NoError(t, err)
	return r
}

func newVault(t *testing.T, ring *seal.Ring) *vault {
	v := &vault{rig: newRig(t), ring: ring}
	v.config = func(c *engine.Config) { c.Keyring = func() *seal.Ring { return v.ring } }
	v.open()
	t.Cleanup(func() { _ = v.node.Close(context.Background()) })
	return v
}

func (v *vault) encrypt(queue string, on bool) {
	v.t.Helper()
	info, err := v.node.Catalog().Configure(context.Background(), someone, engine.ConfigureRequest{Queue: queue,
		Patch: format.QueueOptions{Set: format.OptEncryptionEnabled, EncryptionEnabled: on}})
	require.NoError(v.t, err)
	require.Equal(v.t, on, info.Options.EncryptionEnabled)
}

func (v *vault) to(queue, id, payload string) engine.MessageResult {
	v.t.Helper()
	out, err := v.node.Do(context.Background(), someone, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: queue, Partition: "p",
		Messages: []engine.Message{{TransactionID: id, Payload: []byte(payload), Headers: []engine.Header{{Name: "h", Value: []byte(queue + " secret")}}}}}}})
	require.NoError(v.t, err)
	if out[0].Err != nil {
		return engine.MessageResult{Status: engine.Refused, Err: out[0].Err}
	}
	return out[0].Messages[0]
}

func (v *vault) readAt(queue string, o format.Offset) (string, *engine.Error) {
	v.t.Helper()
	res, err := v.node.Read(context.Background(), someone, engine.ReadRequest{At: []engine.Position{{Queue: queue, Partition: "p", Offset: o}}})
	require.NoError(v.t, err)
	if res.Parts[0].Err != nil || len(res.Parts[0].Records) == 0 {
		return "", res.Parts[0].Err
	}
	return string(res.Parts[0].Records[0].Payload), nil
}

func (v *vault) pop(queue, group string) (*engine.Delivery, error) {
	return v.node.Pop(context.Background(), someone, engine.PopRequest{Scope: engine.Scope{Queue: queue}, Group: group, Batch: 10,
		Start: engine.Start{Kind: format.StartAll}, Lease: time.Minute})
}

func (v *vault) popped(queue, group string) (all []engine.Delivered) {
	v.t.Helper()
	d, err := v.pop(queue, group)
	require.NoError(v.t, err)
	if d == nil {
		return nil
	}
	for m, err := range d.Messages() {
		require.NoError(v.t, err)
		all = append(all, m)
	}
	d.Delivered()
	return all
}

// onDisk tells whether some bytes are in any file of the directory.
func (v *vault) onDisk(text string) bool {
	v.t.Helper()
	names, err := v.fs.List("data")
	require.NoError(v.t, err)
	for _, name := range names {
		data, err := vfs.ReadFile(v.fs, "data/"+name, 64<<20)
		if err == nil && bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}

func isCode(err error, code engine.ErrorCode) bool { return errors.Is(err, &engine.Error{Code: code}) }

// TestEncryptedQueue: payloads, ids and headers of an encrypted queue are nowhere on disk, every way of reading gives
// them back, ids are recognised as ever, and a dead letter and its redrive stay encrypted (S-enc-1, S-dup-10, D-11).
func TestEncryptedQueue(t *testing.T) {
	v := newVault(t, ringOf(t, 1))
	v.encrypt("locked", true)
	require.Equal(t, engine.Queued, v.to("locked", "secret-id", `{"a":"secret payload"}`).Status)
	require.Equal(t, engine.Duplicate, v.to("locked", "secret-id", `{}`).Status)
	require.Equal(t, engine.Queued, v.to("clear", "clear-id", `"clear payload"`).Status)
	large := `"` + strings.Repeat("secret and compressible ", 1000) + `"`
	require.Equal(t, engine.Queued, v.to("locked", "", large).Status)

	read := func() {
		t.Helper()
		got, err := v.readAt("locked", 0)
		require.Nil(t, err)
		require.JSONEq(t, `{"a":"secret payload"}`, got)
		got, err = v.readAt("locked", 1)
		require.Nil(t, err)
		require.Equal(t, large, got)
	}
	read()
	first := v.popped("locked", "g")
	require.Len(t, first, 2)
	require.Equal(t, "secret-id", first[0].TransactionID)
	require.Equal(t, "locked secret", string(first[0].Headers[0].Value))
	hits, err := v.node.Inspect().Messages(t.Context(), someone, engine.MessageFilter{Queue: "locked", To: 1 << 62, Limit: 10})
	require.NoError(t, err)
	require.Len(t, hits, 2)

	d := v.popped("locked", "dead")
	out, err := v.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: v.partition("locked"), Group: "dead",
		Unfenced: true, TransactionID: d[0].TransactionID, Status: format.AckDLQ}}})
	require.NoError(t, err)
	require.Nil(t, out[0].Err)
	letters, err := v.node.Catalog().DeadLetters(t.Context(), someone, engine.DeadLetterFilter{Queue: "locked"})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.JSONEq(t, `{"a":"secret payload"}`, string(letters[0].Message.Payload))
	out, err = v.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Redrive{DeadLetter: letters[0].ID, GroupOnly: true}}})
	require.NoError(t, err)
	require.Nil(t, out[0].Err)
	again, e := v.readAt("locked", 2)
	require.Nil(t, e)
	require.JSONEq(t, `{"a":"secret payload"}`, again)
	require.Len(t, v.popped("locked", "late"), 2, "the copy is for another group")
	require.Len(t, v.popped("locked", "dead"), 2, "the second message and the copy")

	v.tick(5 * time.Second)
	v.close()
	require.True(t, v.onDisk("clear payload"), "the test does not see what is on disk")
	for _, secret := range []string{"secret-id", "secret payload", "locked secret", "compressible"} {
		require.False(t, v.onDisk(secret), secret)
	}
	v.open()
	read()
	require.Equal(t, engine.Duplicate, v.to("locked", "secret-id", `{}`).Status)
}

func (v *vault) partition(queue string) format.PartitionID {
	v.t.Helper()
	hits, err := v.node.Inspect().Messages(v.t.Context(), someone, engine.MessageFilter{Queue: queue, To: 1 << 62, Limit: 1})
	require.NoError(v.t, err)
	require.NotEmpty(v.t, hits)
	return hits[0].Partition.ID
}

// TestKeysComeAndGo: without a key writes are refused and nothing is stored; reading with a missing or another key is an
// error that names the key and hands claims back uncounted; with the key back all is as before. Rotation needs no restart.
func TestKeysComeAndGo(t *testing.T) {
	v := newVault(t, nil)
	v.encrypt("q", true)
	refused := v.to("q", "a", "1")
	require.True(t, isCode(refused.Err, engine.CodeEncryption), "%v", refused.Err)
	v.ring = ringOf(t, 1)
	require.EqualValues(t, 0, v.to("q", "a", `"one"`).Offset, "the refused message left something behind")

	v.ring = ringOf(t, 1, 2)
	require.Equal(t, engine.Queued, v.to("q", "b", `"two"`).Status)
	v.ring = ringOf(t, 2)
	got, e := v.readAt("q", 1)
	require.Nil(t, e)
	require.Equal(t, `"two"`, got)
	_, e = v.readAt("q", 0)
	require.True(t, isCode(e, engine.CodeEncryption), "%v", e)
	require.Contains(t, e.Message, "the key 1 is not loaded")
	_, err := v.pop("q", "g")
	require.True(t, isCode(err, engine.CodeEncryption), "%v", err)
	_, err = v.node.Inspect().Messages(t.Context(), someone, engine.MessageFilter{Queue: "q", To: 1 << 62, Limit: 10})
	require.True(t, isCode(err, engine.CodeEncryption), "%v", err)

	other, err := seal.ParseRing([]byte("keys: [{id: 1, key: " + strings.Repeat("5a17", 16) + "}]"))
	require.NoError(t, err)
	v.ring = other
	_, e = v.readAt("q", 0)
	require.True(t, isCode(e, engine.CodeEncryption), "%v", e)
	require.Contains(t, e.Message, "does not open with the key 1")

	v.close()
	v.ring = nil
	v.open()
	_, e = v.readAt("q", 0)
	require.True(t, isCode(e, engine.CodeEncryption), "%v", e)
	v.ring = ringOf(t, 1, 2)
	all := v.popped("q", "g")
	require.Len(t, all, 2)
	d, err := v.pop("q", "h")
	require.NoError(t, err)
	require.EqualValues(t, 1, d.Claims[0].Attempt, "what could not be decrypted counted as an attempt")
	d.Abandon()
}

// TestDeadLettersWithoutTheirKey: they stay listed with what is known in the clear, without a payload, and are not
// redriven as nothing.
func TestDeadLettersWithoutTheirKey(t *testing.T) {
	v := newVault(t, ringOf(t, 1))
	v.encrypt("q", true)
	v.to("q", "a", `"one"`)
	part := v.partition("q")
	v.popped("q", "g")
	_, err := v.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: part, Group: "g",
		Unfenced: true, TransactionID: "a", Status: format.AckDLQ, Reason: "bad"}}})
	require.NoError(t, err)
	v.ring = ringOf(t, 2)
	letters, err := v.node.Catalog().DeadLetters(t.Context(), someone, engine.DeadLetterFilter{Queue: "q"})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, "null", string(letters[0].Message.Payload))
	require.Equal(t, "bad (the message can not be decrypted: the key 1 is not loaded)", letters[0].Error)
	out, err := v.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Redrive{DeadLetter: letters[0].ID}}})
	require.NoError(t, err)
	require.True(t, isCode(out[0].Err, engine.CodeEncryption), "%v", out[0].Err)
	v.ring = ringOf(t, 1)
	out, err = v.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Redrive{DeadLetter: letters[0].ID}}})
	require.NoError(t, err)
	require.Nil(t, out[0].Err)
}

// TestEncryptionOutlivesACrash cuts the power at every operation of "configure, then push": a queue that was told to
// encrypt, and said so, never stores in the clear afterwards, whatever the next life knows.
func TestEncryptionOutlivesACrash(t *testing.T) {
	for cut := int64(1); ; cut++ {
		v := newVault(t, ringOf(t, 1))
		v.node.Settle()
		died := make(chan struct{})
		var once sync.Once
		v.close()
		v.config = func(c *engine.Config) {
			c.Keyring = func() *seal.Ring { return v.ring }
			c.Fatal = func(error) { once.Do(func() { close(died) }); runtime.Goexit() }
		}
		v.open()
		from := v.fs.Ops()
		v.fs.PowerOffAt(from + cut)
		var told, pushed atomic.Bool
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, err := v.node.Catalog().Configure(context.Background(), someone, engine.ConfigureRequest{Queue: "q",
				Patch: format.QueueOptions{Set: format.OptEncryptionEnabled, EncryptionEnabled: true}})
			if told.Store(err == nil); err == nil {
				out, err := v.node.Do(context.Background(), someone, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "q", Partition: "p",
					Messages: []engine.Message{{Payload: []byte(`"secret payload"`)}}}}})
				pushed.Store(err == nil && out[0].Messages[0].Err == nil)
			}
		}()
		select {
		case <-ended:
		case <-died:
		}
		alive := !v.fs.PoweredOff()
		w := &vault{rig: newRig(t)}
		w.fs, w.seed = v.fs.Crash(vfs.RandomSubset(uint64(cut))), 1000
		w.config = func(c *engine.Config) { c.Keyring = func() *seal.Ring { return w.ring } }
		w.open()
		if !told.Load() {
			w.encrypt("q", true)
		}
		refused := w.to("q", "", `"secret payload"`)
		require.True(t, isCode(refused.Err, engine.CodeEncryption), "cut %d: %+v", cut, refused)
		w.ring = ringOf(t, 1)
		require.Equal(t, engine.Queued, w.to("q", "", `"secret payload"`).Status)
		got, e := w.readAt("q", 0)
		require.Nil(t, e)
		require.Equal(t, `"secret payload"`, got)
		w.close()
		require.False(t, w.onDisk("secret"), "cut %d", cut)
		if alive {
			require.True(t, told.Load() && pushed.Load())
			return
		}
		require.Less(t, cut, int64(200))
	}
}

// TestSealedFramesMove: frames of encrypted queues read as before once they were relocated, and after a
// restart.
func TestSealedFramesMove(t *testing.T) {
	m := newMixed(t, 5)
	ring := ringOf(t, 1, 2)
	m.config = func(c *engine.Config) { c.Keyring = func() *seal.Ring { return ring } }
	m.open()
	m.declare()
	for queue := range retentions {
		_, err := m.node.Catalog().Configure(t.Context(), someone, engine.ConfigureRequest{Queue: queue,
			Patch: format.QueueOptions{Set: format.OptEncryptionEnabled, EncryptionEnabled: true}})
		require.NoError(t, err)
	}
	for range 4 {
		m.fill(4 * time.Second)
	}
	before := m.shoot()
	m.works(12)
	_, bulk, oldest := m.diskOf()
	require.True(t, bulk > 0 && oldest >= 4, "nothing moved")
	m.same("moved", before)
	m.close()
	m.open()
	m.same("reopened", before)
	m.close()
}
