package format

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// Goal: messages come back from a frame, compressed or not, whatever the scratch buffer held before.
func TestFrameGivesBackItsMessages(t *testing.T) {
	var scratch []byte
	codecs := map[FrameCodec]int{}
	for seed := range uint64(300) {
		g := newGen(seed)
		msgs, frame := g.frame(1 + g.IntN(12))
		h, r, err := ReadFrame(frame, &scratch)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		codecs[h.Codec]++
		for i := range msgs {
			var m FrameMessage
			if !r.Next(&m) {
				t.Fatalf("seed %d message %d: %v", seed, i, r.Err())
			}
			if !reflect.DeepEqual(normal(&m), normal(&msgs[i])) {
				t.Fatalf("seed %d message %d: %+v want %+v", seed, i, m, msgs[i])
			}
		}
		if r.Next(new(FrameMessage)) || r.Err() != nil {
			t.Fatalf("seed %d: %v", seed, r.Err())
		}
	}
	if codecs[CodecNone] == 0 || codecs[CodecZstd] == 0 {
		t.Fatalf("codecs met: %v", codecs)
	}
}

// Goal: compression follows its rule: from CompressFrom, kept only when it saves a tenth.
func TestFrameCompressionRule(t *testing.T) {
	g := newGen(1)
	noise := make([]byte, 2*CompressFrom)
	for i := range noise {
		noise[i] = byte(g.Uint32())
	}
	for _, c := range []struct {
		name    string
		payload []byte
		ask     bool
		want    FrameCodec
	}{
		{"small", make([]byte, CompressFrom-64), true, CodecNone},
		{"large", make([]byte, CompressFrom), true, CodecZstd},
		{"not asked", make([]byte, CompressFrom), false, CodecNone},
		{"noise", noise, true, CodecNone},
	} {
		frame := EncodeFrame(nil, []FrameMessage{{Payload: c.payload}}, FrameOptions{Compress: c.ask})
		if h, _, err := ParseFrame(frame); err != nil || h.Codec != c.want {
			t.Errorf("%s: %+v %v", c.name, h, err)
		}
	}
}

// Goal: each flipped bit of a stored frame is found, the ordinal's bits included.
func TestFrameRotIsFound(t *testing.T) {
	_, frame := newGen(5).frame(3)
	for _, ordinal := range []Ordinal{0, 1, 77, MaxOrdinals - 1} {
		patchFrameOrdinal(frame, ordinal)
		if h, _, err := ParseFrame(frame); err != nil || h.FirstOrdinal != ordinal || !h.Placed {
			t.Fatal(h, err)
		}
		for i := range len(frame) * 8 {
			frame[i/8] ^= 1 << (i % 8)
			var e *Error
			if _, _, err := ParseFrame(frame); !errors.As(err, &e) {
				t.Fatalf("bit %d: %v", i, err)
			}
			frame[i/8] ^= 1 << (i % 8)
		}
	}
}

// Goal: a body that decompresses to more, or less, than its head says is refused.
func TestFrameRawLengthIsABound(t *testing.T) {
	frame := EncodeFrame(nil, []FrameMessage{{Payload: make([]byte, 5000)}}, FrameOptions{Compress: true})
	h, body, err := ParseFrame(frame)
	if err != nil || h.Codec != CodecZstd {
		t.Fatal(h, err)
	}
	for _, raw := range []uint32{h.RawLen - 1, h.RawLen + 1, 1} {
		lying := h
		lying.RawLen = raw
		if out, err := lying.Decompress(nil, body); err == nil || cap(out) > int(raw)+64 {
			t.Fatalf("raw length %d: %d bytes, %v", raw, cap(out), err)
		}
	}
	if out, err := h.Decompress([]byte("before"), body); err != nil || len(out) != 6+int(h.RawLen) {
		t.Fatal(len(out), err)
	}
}

// Goal: a Kafka batch is stored as it was produced.
func TestKafkaFrame(t *testing.T) {
	frame := EncodeKafkaFrame(nil, 7, []byte("batch"))
	h, body, err := ParseFrame(frame)
	if err != nil || h.Kind != FrameKafka || h.Count != 7 || !bytes.Equal(body, []byte("batch")) {
		t.Fatal(h, body, err)
	}
	r := h.Messages(body)
	if r.Next(new(FrameMessage)) || r.Err() == nil {
		t.Fatal("a Kafka batch was read as native messages")
	}
}

// Goal: a frame for one consumer group says so, also when it is sealed or was compacted, and it has one message; the
// header that a producer wrote says nothing.
func TestGroupedFrame(t *testing.T) {
	only := AppendHeaders(nil, []Header{{Key: []byte(HeaderOnlyGroup), Value: []byte("g")}})
	frame := EncodeFrame(nil, []FrameMessage{{Payload: []byte("x"), Headers: only}}, FrameOptions{})
	if h, _, err := ParseFrame(frame); err != nil || h.Grouped {
		t.Fatal(h, err)
	}
	MarkGrouped(frame)
	if h, _, err := ParseFrame(frame); err != nil || !h.Grouped || h.Sealed {
		t.Fatal(h, err)
	}
	sealed := BeginSeal(bytes.Clone(frame), 1, make([]byte, SealNonce))
	EndSeal(sealed)
	if h, _, err := ParseFrame(sealed); err != nil || !h.Grouped || !h.Sealed {
		t.Fatal(h, err)
	}
	kafka := EncodeKafkaFrame(nil, 1, []byte("batch"))
	MarkGrouped(kafka)
	h, _, err := ParseFrame(kafka)
	if err != nil {
		t.Fatal(err)
	}
	if h, body, err := ParseFrame(RewriteKafkaFrame([]byte("before"), h, []byte("less"))[6:]); err != nil || !h.Grouped || string(body) != "less" {
		t.Fatal(h, err)
	}
	two := EncodeFrame(nil, make([]FrameMessage, 2), FrameOptions{})
	MarkGrouped(two)
	if _, _, err := ParseFrame(two); err == nil {
		t.Fatal("two messages for one group")
	}
	frame[5] |= 4
	if _, err := ParseFrameHead(frame); err == nil {
		t.Fatal("a flag that nobody knows")
	}
}
