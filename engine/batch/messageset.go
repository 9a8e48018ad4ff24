package batch

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// Message sets are what clients wrote before record batches: messages one behind the other,
//
//	offset 8 | size 4 | CRC-32 4 | magic 1 | attributes 1 | [timestamp 8, magic 1] | key 4+n | value 4+n
//
// A compressed one is a message whose value is a message set under its codec. Offsets of what is produced mean
// nothing, neither those of magic 0 nor the relative ones inside a magic 1 wrapper: order does.

const (
	setHead = 12 // offset and size
	msgMin0 = 4 + 1 + 1 + 4 + 4
)

// message is one message of a set.
type message struct {
	magic int8
	attrs int8
	ts    int64
	// key and value: nil is null.
	key, value []byte
}

// FromMessageSet makes one batch, appended to dst, of a message set of magic 0 or 1. It keeps the codec of the first
// message. Messages without a timestamp get -1, none.
func FromMessageSet(dst, set []byte, lim Limits) ([]byte, error) {
	lim = lim.orDefault()
	if len(set) == 0 {
		return nil, refuse(Invalid, "message set without messages")
	}
	c := converter{lim: lim, left: lim.Bytes}
	if err := c.set(set, false, 0); err != nil {
		return nil, err
	}
	if c.b.h.Count == 0 {
		return nil, refuse(Invalid, "message set without messages")
	}
	c.b.out = dst
	return c.b.Finish(0)
}

// converter collects the messages of a set.
type converter struct {
	b    *Builder
	lim  Limits
	left int // bytes that may still be decompressed
}

// set reads messages one behind the other; inner ones are not compressed and have their wrapper's magic.
func (c *converter) set(b []byte, inner bool, magic int8) error {
	for len(b) > 0 {
		if len(b) < setHead {
			return corrupt("message head is cut off")
		}
		n := int64(binary.BigEndian.Uint32(b[8:]))
		if n < msgMin0 || n > int64(len(b)-setHead) {
			return corrupt("message size %d with %d bytes left", n, len(b)-setHead)
		}
		m, err := parseMessage(b[setHead : setHead+n])
		if err != nil {
			return err
		}
		b = b[setHead+n:]
		codec := Codec(m.attrs & codecMask)
		if c.b == nil {
			h := Head(0)
			h.Attributes = int16(codec)
			c.b = NewBuilder(nil, h)
		}
		switch {
		case inner && (codec != None || m.magic != magic):
			return corrupt("a compressed message holds one of another kind")
		case codec == None:
			err = c.add(&m)
		default:
			err = c.wrapped(codec, &m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *converter) add(m *message) error {
	if int(c.b.h.Count) >= c.lim.Records {
		return refuse(TooLarge, "more than %d messages", c.lim.Records)
	}
	c.b.Add(&Record{OffsetDelta: c.b.h.Count, Timestamp: m.ts, Key: m.key, Value: m.value})
	return nil
}

func (c *converter) wrapped(codec Codec, m *message) error {
	if codec > LZ4 {
		return refuse(BadCodec, "compression %s can not be in a message set", codec)
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	in := m.value
	if codec == LZ4 && m.magic == 0 {
		in = fixLZ4Head(in)
	}
	out, err := s.decompress(codec, in, c.left)
	if err != nil {
		return err
	}
	c.left -= len(out)
	return c.set(out, true, m.magic)
}

// parseMessage reads what follows offset and size.
func parseMessage(b []byte) (message, error) {
	m := message{magic: int8(b[4]), attrs: int8(b[5]), ts: NoTimestamp}
	if m.magic != 0 && m.magic != 1 {
		return m, refuse(BadMagic, "message of format %d in a message set", m.magic)
	}
	if crc32.ChecksumIEEE(b[4:]) != binary.BigEndian.Uint32(b) {
		return m, corrupt("a message's checksum is wrong")
	}
	rest := b[6:]
	if m.magic == 1 {
		if len(rest) < 8 {
			return m, corrupt("message is cut off")
		}
		m.ts, rest = int64(binary.BigEndian.Uint64(rest)), rest[8:]
	}
	var ok1, ok2 bool
	m.key, rest, ok1 = lengthBytes(rest)
	m.value, rest, ok2 = lengthBytes(rest)
	if !ok1 || !ok2 || len(rest) > 0 {
		return m, corrupt("message can not be decoded")
	}
	return m, nil
}

// lengthBytes reads a 4-byte length and as many bytes; -1 is nil.
func lengthBytes(b []byte) (v, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := int32(binary.BigEndian.Uint32(b))
	b = b[4:]
	switch {
	case n == -1:
		return nil, b, true
	case n < 0 || int(n) > len(b):
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}

// fixLZ4Head returns an lz4 frame with the right checksum in its head: clients of magic 0 counted the frame's magic
// number in, which no other reader of lz4 accepts.
func fixLZ4Head(in []byte) []byte {
	const magic, flagSize = 4, 1 << 3
	end := magic + 2
	if len(in) > magic && in[magic]&flagSize != 0 {
		end += 8
	}
	if len(in) <= end {
		return in
	}
	out := append([]byte(nil), in...)
	out[end] = byte(xxh32(out[magic:end]) >> 8)
	return out
}

// xxh32 is the 32-bit xxHash of fewer than 16 bytes.
func xxh32(b []byte) uint32 {
	const p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
	h := uint32(p5) + uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*p3, 17) * p4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*p5, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}
