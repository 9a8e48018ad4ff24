package machine

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"queen/engine/machine/slab"
)

// Goal: the rows of checkpoints and digests are the fields in their order, little-endian, whoever lays them out by hand.
func TestRowsAreTheirFieldsInOrder(t *testing.T) {
	layout(t, "partition", partCodec)
	layout(t, "side", sideCodec)
	layout(t, "cursor", cursorCodec)
	layout(t, "lease", leaseCodec)
	layout(t, "dead letter", deadCodec)
}

func layout[T any](t *testing.T, name string, c slab.Codec[T]) {
	rng := rand.New(rand.NewPCG(1, 2))
	src, got := make([]byte, c.Size), make([]byte, c.Size)
	for range 20 {
		for i := range src {
			src[i] = byte(rng.Uint32())
		}
		var row T
		c.Decode(src, &row)
		want, err := binary.Append(nil, binary.LittleEndian, &row)
		if err != nil {
			t.Fatal(err)
		}
		if clear(got); !bytes.Equal(want, src) {
			t.Fatalf("%s: decoded %x of %x", name, want, src)
		}
		if c.Encode(got, &row); !bytes.Equal(got, want) {
			t.Fatalf("%s: encoded %x, want %x", name, got, want)
		}
	}
}

// BenchmarkEncodeRows is the encoding of the rows that a message changes, one of each kind.
func BenchmarkEncodeRows(b *testing.B) {
	b.Run("partition", func(b *testing.B) { encodeRows(b, partCodec) })
	b.Run("cursor", func(b *testing.B) { encodeRows(b, cursorCodec) })
	b.Run("lease", func(b *testing.B) { encodeRows(b, leaseCodec) })
}

func encodeRows[T any](b *testing.B, c slab.Codec[T]) {
	dst, row := make([]byte, c.Size), new(T)
	for b.Loop() {
		c.Encode(dst, row)
	}
}
