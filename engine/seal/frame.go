package seal

import (
	"fmt"

	"queen/engine/format"
)

// Owner is the partition for which a frame is sealed, and the only one in which it opens. Names are used, not ids: a
// partition has none yet when its first message is sealed.
type Owner struct {
	Tenant           format.Tenant
	Queue, Partition []byte
}

// Error says why a frame does not open.
type Error struct {
	// Key is the number of the key it was sealed with.
	Key uint32
	// Missing is set when the ring has no such key; otherwise the key is another one, or the bytes were changed.
	Missing bool
}

func (e *Error) Error() string {
	if e.Missing {
		return fmt.Sprintf("the key %d is not loaded", e.Key)
	}
	return fmt.Sprintf("it does not open with the key %d", e.Key)
}

// Frame seals an unsealed frame of format.EncodeFrame and returns it; the slice may be reallocated. random fills a nonce
// from a cryptographic source.
func (r *Ring) Frame(frame []byte, o Owner, random func([]byte)) ([]byte, error) {
	var nonce [format.SealNonce]byte
	random(nonce[:])
	return r.frame(frame, o, &nonce)
}

func (r *Ring) frame(frame []byte, o Owner, nonce *[format.SealNonce]byte) ([]byte, error) {
	aead, err := r.keys[r.seals].of(nonce[:])
	if err != nil {
		return frame, fmt.Errorf("seal: %w", err)
	}
	frame = format.BeginSeal(frame, r.seals, nonce[:])
	text := format.SealText(frame)
	aead.Seal(text[:0], nonce[nonceHalf:], text, format.AppendSealContext(nil, frame, o.Tenant, o.Queue, o.Partition))
	format.EndSeal(frame)
	return frame, nil
}

// Open decrypts the body of a sealed frame into fresh memory. frame is the whole frame and body what format.ParseFrame
// returned for it. The error is an *Error when keys are to blame.
func (r *Ring) Open(frame, body []byte, h format.FrameHead, o Owner) ([]byte, error) {
	s, err := h.OpenSeal(body)
	if err != nil {
		return nil, err
	}
	var k *key
	if r != nil {
		k = r.keys[s.Key]
	}
	if k == nil {
		return nil, &Error{Key: s.Key, Missing: true}
	}
	aead, err := k.of(s.Nonce)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	text, err := aead.Open(nil, s.Nonce[nonceHalf:], s.Text, format.AppendSealContext(nil, frame, o.Tenant, o.Queue, o.Partition))
	if err != nil {
		return nil, &Error{Key: s.Key}
	}
	return text, nil
}
