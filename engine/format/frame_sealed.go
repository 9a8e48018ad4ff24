package format

import "encoding/binary"

// Layout of a sealed body, which stands where the body of the frame would stand:
//
//	| key id u32 | nonce 24 | ciphertext | tag 16 |
//	 0            4          28
//
// What is sealed is the body as it would be stored, compressed or not. Codec, count and raw length in the head speak of
// what comes out again; the body's length and the checksum are those of the bytes on disk, so that rot is found without
// a key. Moving a frame to another place keeps it readable: the ordinal is not part of what the tag protects.
const (
	// SealNonce is the length of a nonce; being that long it may be random however many frames a key seals.
	SealNonce = 24
	// SealOverhead is how much longer a sealed body is.
	SealOverhead = sealedHead + sealTag

	sealedHead  = 4 + SealNonce
	sealTag     = 16
	frameSealed = 1 // flag
)

// Sealed are the parts of a sealed body; they alias it.
type Sealed struct {
	// Key names the key, 0 is no key's.
	Key uint32
	// Nonce is SealNonce bytes.
	Nonce []byte
	// Text is the ciphertext with its tag.
	Text []byte
}

// IsSealed tells whether whole frames are sealed, by the first bytes of one.
func IsSealed(frame []byte) bool { return len(frame) > 5 && frame[5]&frameSealed != 0 }

// BeginSeal makes room for a sealed body around the body of an unsealed frame, which it moves: the caller encrypts
// SealText(frame) in place and then calls EndSeal. The frame may be reallocated.
func BeginSeal(frame []byte, key uint32, nonce []byte) []byte {
	n := len(frame)
	frame = append(frame, make([]byte, SealOverhead)...)
	copy(frame[FrameHeadSize+sealedHead:], frame[FrameHeadSize:n])
	frame[5] |= frameSealed
	binary.LittleEndian.PutUint32(frame[FrameHeadSize:], key)
	copy(frame[FrameHeadSize+4:FrameHeadSize+sealedHead], nonce)
	return frame
}

// SealText is the plaintext of a frame between BeginSeal and EndSeal; its capacity has room for the tag.
func SealText(frame []byte) []byte { return frame[FrameHeadSize+sealedHead : len(frame)-sealTag] }

// EndSeal fills in the body's length and the checksum.
func EndSeal(frame []byte) {
	binary.LittleEndian.PutUint32(frame[16:], uint32(len(frame)-FrameHeadSize))
	crc := crc32cPair(frame[frameSumFrom:frameCRCAt], frame[FrameHeadSize:])
	binary.LittleEndian.PutUint32(frame[frameCRCAt:], crc)
}

// AppendSealContext appends what the tag protects beside the body: what the head says about it, and whose it is. A
// frame that is put into another partition's place does not open there.
func AppendSealContext(dst, frame []byte, t Tenant, queue, partition []byte) []byte {
	dst = append(dst, frame[4:16]...)
	dst = append(dst, t[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(queue)))
	dst = append(dst, queue...)
	return append(dst, partition...)
}

// OpenSeal takes a sealed body apart.
func (h FrameHead) OpenSeal(body []byte) (s Sealed, err error) {
	if !h.Sealed || len(body) < SealOverhead {
		return s, errorf("frame body", FrameHeadSize, "%d bytes, no sealed body", len(body))
	}
	s = Sealed{Key: binary.LittleEndian.Uint32(body), Nonce: body[4:sealedHead], Text: body[sealedHead:]}
	if s.Key == 0 {
		return s, errorf("frame body", FrameHeadSize, "sealed with the key 0")
	}
	return s, nil
}

// Unpack decompresses the body of a frame, if need be, into fresh memory.
func (h FrameHead) Unpack(body []byte) ([]byte, error) {
	if h.Codec == CodecNone {
		if len(body) != int(h.RawLen) {
			return nil, errorf("frame body", 12, "raw length %d want %d", len(body), h.RawLen)
		}
		return body, nil
	}
	return h.Decompress(nil, body)
}
