package message

import (
	"encoding/json"
	"testing"
)

func TestShapes(t *testing.T) {
	name := AppendPartition(nil, 1_100_000)
	if string(name) != "entity-0000001100000" || len(name) != NameBytes {
		t.Errorf("name %q", name)
	}
	if p, err := ParsePartition(name); p != 1_100_000 || err != nil {
		t.Errorf("%d, %v", p, err)
	}
	if id := string(AppendID(nil, 0x0123456789abcdef, 0xfedcba98, 7)); id != "01234567-89ab-cdef-fedc-ba9800000007" {
		t.Errorf("id %q", id)
	}
}

// TestPayload reads back what payloads of many sizes say.
func TestPayload(t *testing.T) {
	for _, size := range []int{MinPayload, 256, 1024, 70_000} {
		p := AppendPayload([]byte("x"), size, 4_000_000_000, 1_700_000_000_000_000, uint64(size))[1:]
		var v struct {
			N, T int64
			Text string
		}
		if err := json.Unmarshal(p, &v); err != nil || len(p) != size || v.N != 4_000_000_000 || v.T != 1_700_000_000_000_000 {
			t.Fatalf("%d bytes %s: %v", len(p), p, err)
		}
		if s, ok := ParseStamp(p); !ok || int64(s.N) != v.N || s.At != v.T {
			t.Errorf("stamp %+v %v", s, ok)
		}
	}
	if _, ok := ParseStamp([]byte(`{"n":7}`)); ok {
		t.Error("a foreign payload has no stamp")
	}
}
