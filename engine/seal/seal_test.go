package seal

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/clock"
	"queen/engine/format"
)

func hexKey(b byte) string { return hex.EncodeToString(bytes.Repeat([]byte{b, 0xa5}, KeyBytes/2)) }

func ring(t testing.TB, text string) *Ring {
	t.Helper()
	r, err := ParseRing([]byte(text))
	require.NoError(t, err)
	return r
}

func keys(ids ...byte) string {
	text := "keys:\n"
	for _, id := range ids {
		text += fmt.Sprintf("  - {id: %d, key: %s}\n", id, hexKey(id))
	}
	return text
}

// TestVectors holds the construction to the published examples of XAES-256-GCM, so that what was sealed can be opened
// by other programs too.
func TestVectors(t *testing.T) {
	const nonce = "ABCDEFGHIJKLMNOPQRSTUVWX"
	for _, c := range []struct {
		key             byte
		context, sealed string
	}{
		{1, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{3, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		k, err := newKey([KeyBytes]byte(bytes.Repeat([]byte{c.key}, KeyBytes)))
		require.NoError(t, err)
		aead, err := k.of([]byte(nonce))
		require.NoError(t, err)
		require.Equal(t, c.sealed, hex.EncodeToString(aead.Seal(nil, []byte(nonce)[nonceHalf:], []byte("XAES-256-GCM"), []byte(c.context))))
	}
}

var owner = Owner{Tenant: format.DefaultTenant, Queue: []byte("orders"), Partition: []byte("p1")}

func plainFrame(payload []byte) []byte {
	return format.EncodeFrame(nil, []format.FrameMessage{{TransactionID: []byte("t"), HasID: true, Payload: payload}},
		format.FrameOptions{Compress: true})
}

func sealed(t testing.TB, r *Ring, frame []byte, o Owner) []byte {
	t.Helper()
	out, err := r.Frame(frame, o, clock.NewFakeRand(1).Fill)
	require.NoError(t, err)
	return out
}

func open(r *Ring, frame []byte, o Owner) ([]byte, error) {
	h, body, err := format.ParseFrame(frame)
	if err != nil {
		return nil, err
	}
	text, err := r.Open(frame, body, h, o)
	if err != nil {
		return nil, err
	}
	raw, err := h.Unpack(text)
	if err != nil {
		return nil, err
	}
	it := h.Messages(raw)
	var m format.FrameMessage
	if !it.Next(&m) {
		return nil, it.Err()
	}
	return m.Payload, nil
}

// TestRoundTrip: what was sealed comes back, also compressed and empty, and no run of plaintext is in the frame.
func TestRoundTrip(t *testing.T) {
	r := ring(t, keys(1))
	for _, n := range []int{0, 1, 15, 16, 17, 1000, 5000, 1 << 20} {
		payload := []byte(strings.Repeat("a secret sentence ", n/18+1)[:n])
		plain := plainFrame(payload)
		frame := sealed(t, r, bytes.Clone(plain), owner)
		require.Len(t, frame, len(plain)+format.SealOverhead)
		require.True(t, format.IsSealed(frame) && !format.IsSealed(plain))
		require.NotContains(t, string(frame), "secret")
		got, err := open(r, frame, owner)
		require.NoError(t, err)
		require.Equal(t, string(payload), string(got))
		var scratch []byte
		_, _, err = format.ReadFrame(frame, &scratch)
		require.ErrorContains(t, err, "sealed")
	}
}

// TestOnlyTheOwnerOpens: not another tenant, queue or partition, nor names that only join to the same bytes.
func TestOnlyTheOwnerOpens(t *testing.T) {
	r := ring(t, keys(1))
	frame := sealed(t, r, plainFrame([]byte("x")), owner)
	for _, o := range []Owner{{Tenant: format.Tenant{1}, Queue: owner.Queue, Partition: owner.Partition},
		{Tenant: owner.Tenant, Queue: []byte("order"), Partition: []byte("sp1")},
		{Tenant: owner.Tenant, Queue: owner.Queue, Partition: []byte("p2")}} {
		_, err := open(r, frame, o)
		require.Equal(t, &Error{Key: 1}, err)
	}
}

// TestNoChangedByteOpens flips every byte of a sealed frame and repairs its checksum: nothing opens, and the ordinal,
// which moves with the frame, does not matter.
func TestNoChangedByteOpens(t *testing.T) {
	r := ring(t, keys(1))
	frame := sealed(t, r, plainFrame([]byte("a payload")), owner)
	for i := 4; i < len(frame); i++ {
		if i >= 16 && i < format.FrameHeadSize {
			continue // the body's length and the checksum, which EndSeal makes anew
		}
		bad := bytes.Clone(frame)
		bad[i] ^= 1
		format.EndSeal(bad)
		_, err := open(r, bad, owner)
		require.Error(t, err, "byte %d", i)
	}
	for _, n := range []int{0, 1, format.SealOverhead - 1, format.SealOverhead} {
		short := bytes.Clone(frame[:format.FrameHeadSize+n])
		format.EndSeal(short)
		_, err := open(r, short, owner)
		require.Error(t, err, "%d bytes", n)
	}
}

// TestRotation: the highest number seals, every key opens, a pin holds the new one back, and a missing or different key
// is told by its number.
func TestRotation(t *testing.T) {
	old := sealed(t, ring(t, keys(7)), plainFrame([]byte("old")), owner)
	both := ring(t, keys(7, 9))
	require.EqualValues(t, 9, both.SealsWith())
	fresh := sealed(t, both, plainFrame([]byte("new")), owner)
	require.EqualValues(t, 7, ring(t, "seal_with: 7\n"+keys(7, 9)).SealsWith())
	for want, frame := range map[string][]byte{"old": old, "new": fresh} {
		got, err := open(both, frame, owner)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	_, err := open(ring(t, keys(9)), old, owner)
	require.Equal(t, &Error{Key: 7, Missing: true}, err)
	require.ErrorContains(t, err, "the key 7 is not loaded")
	var none *Ring
	_, err = open(none, old, owner)
	require.Equal(t, &Error{Key: 7, Missing: true}, err)
	_, err = open(ring(t, "keys: [{id: 7, key: "+hexKey(8)+"}]"), old, owner)
	require.Equal(t, &Error{Key: 7}, err)
	require.ErrorContains(t, err, "does not open with the key 7")
}

// TestNoncesDiffer: the same frame never gives the same bytes twice.
func TestNoncesDiffer(t *testing.T) {
	r, random := ring(t, keys(1)), clock.NewFakeRand(1)
	seen := map[string]bool{}
	for range 100 {
		frame, err := r.Frame(plainFrame([]byte("x")), owner, random.Fill)
		require.NoError(t, err)
		require.False(t, seen[string(frame)])
		seen[string(frame)] = true
	}
}

// TestRings: what is wrong with a keyring is named, and never with a key in the words.
func TestRings(t *testing.T) {
	const secret = "5ec2e700"
	for want, text := range map[string]string{
		"0 keys, want":                 "",
		"field kees not found":         "kees: []",
		"id must be a number from 1":   "keys: [{key: " + hexKey(1) + "}]",
		"key 1: a key is 64 hex":       "keys: [{id: 1, key: " + secret + "}]",
		"two keys have the number 3":   keys(3, 3),
		"there is no key 4":            "seal_with: 4\n" + keys(3),
		"one repeated byte":            "keys: [{id: 1, key: " + strings.Repeat("00", 32) + "}]",
		"a value of another kind":      "keys: " + secret,
		"cannot unmarshal !!map":       "keys: [{id: 1, key: {a: " + secret + "}}]",
		"cannot unmarshal !!int a val": "keys: [{id: -1, key: " + hexKey(1) + "}]",
	} {
		_, err := ParseRing([]byte(text))
		require.Error(t, err, text)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), secret)
	}
	_, err := NewRing("xyz")
	require.ErrorContains(t, err, "64 hex digits")
	one, err := NewRing(hexKey(1))
	require.NoError(t, err)
	require.EqualValues(t, 1, one.SealsWith())
}

// FuzzOpen: whatever stands where a sealed frame should, nothing opens but what was sealed, and nothing panics.
func FuzzOpen(f *testing.F) {
	r := ring(f, keys(1))
	good := sealed(f, r, plainFrame([]byte("a payload")), owner)
	f.Add(good)
	f.Add(good[:format.FrameHeadSize+format.SealOverhead])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= format.FrameHeadSize {
			b = bytes.Clone(b)
			format.EndSeal(b)
		}
		h, body, err := format.ParseFrame(b)
		if err != nil || !h.Sealed {
			return
		}
		if _, err := r.Open(b, body, h, owner); err == nil && !bytes.Equal(b[4:], good[4:]) {
			t.Fatalf("%x opened", b)
		}
	})
}
