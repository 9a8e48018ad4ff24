package keyed

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// benchOverlay has n rows with random 20-byte keys and 24-byte values.
func benchOverlay(rng *rand.Rand, n int) *Overlay {
	o := NewOverlay(OverlayLimits{})
	for range n {
		key := binary.BigEndian.AppendUint64([]byte{1, 0, 0, 0}, rng.Uint64())
		_ = o.Put(binary.BigEndian.AppendUint64(key, rng.Uint64()), make([]byte, 24))
	}
	return o
}

// BenchmarkFlush: one checkpoint of 100,000 random rows.
func BenchmarkFlush(b *testing.B) {
	s, err := Open(Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	const rows = 100_000
	for c := uint64(1); b.Loop(); c++ {
		b.StopTimer()
		o := benchOverlay(rng, rows)
		b.StartTimer()
		f, err := s.FlushAt(context.Background(), c, nil, o.Rows())
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Recorded(c - 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkRead: point reads, pages of 10, and a full verification of 300,000 rows.
func BenchmarkRead(b *testing.B) {
	s, err := Open(Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var keys [][]byte
	o := benchOverlay(rand.New(rand.NewPCG(1, 1)), 300_000)
	for row := range o.Rows() {
		keys = append(keys, row.Key)
	}
	if _, err := s.FlushAt(context.Background(), 1, nil, o.Rows()); err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(2, 2))
	b.Run("get", func(b *testing.B) {
		for b.Loop() {
			if _, ok, err := s.GetAt(1, keys[rng.IntN(len(keys))]); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
	b.Run("page10", func(b *testing.B) {
		for b.Loop() {
			key := keys[rng.IntN(len(keys))]
			if err := s.ScanAt(1, key[:1], key, 10, func(_, _ []byte) bool { return true }); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.VerifyAt(context.Background(), 1); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(keys))*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}

func BenchmarkOverlayPut(b *testing.B) {
	rng, o := rand.New(rand.NewPCG(1, 1)), NewOverlay(OverlayLimits{})
	value := make([]byte, 24)
	for b.Loop() {
		key := binary.BigEndian.AppendUint64([]byte{1, 0, 0, 0}, rng.Uint64())
		_ = o.Put(key, value)
	}
}
