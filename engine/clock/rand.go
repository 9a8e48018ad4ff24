package clock

import (
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"sync"
)

// Rand is a source of random bytes that does not fail.
type Rand interface {
	// Fill overwrites p with random bytes.
	Fill(p []byte)

	// Uint64 returns eight of them.
	Uint64() uint64
}

// RealRand returns the system's cryptographic source. If the system can not deliver, the process ends
// (crypto/rand's rule).
func RealRand() Rand { return realRand{} }

type realRand struct{}

func (realRand) Fill(p []byte) { _, _ = crand.Read(p) } // documented never to return an error

func (r realRand) Uint64() uint64 {
	var b [8]byte
	r.Fill(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// NewFakeRand returns a stream that is the same for the same seed, for tests and simulations. It is not for secrets.
func NewFakeRand(seed uint64) Rand {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return &fakeRand{src: rand.NewChaCha8(key)}
}

type fakeRand struct {
	mu  sync.Mutex
	src *rand.ChaCha8
}

func (r *fakeRand) Fill(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.src.Read(p) // documented never to return an error
}

func (r *fakeRand) Uint64() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.src.Uint64()
}
