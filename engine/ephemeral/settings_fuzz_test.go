package ephemeral

import (
	"bytes"
	"testing"
)

// FuzzSettings feeds the decoder with hostile bytes: no panic, and what is accepted is in bounds and comes back equal.
func FuzzSettings(f *testing.F) {
	f.Add(DefaultSettings().Encode())
	f.Add([]byte{1, 2, 1, 2, 3, 4, 5, 6, 7})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSettings(b)
		if err != nil {
			return
		}
		again, err := DecodeSettings(s.Encode())
		if err != nil || again != s || !bytes.Equal(again.Encode(), s.Encode()) {
			t.Fatalf("% x: %+v, %+v, %v", b, s, again, err)
		}
	})
}
