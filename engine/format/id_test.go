package format

import "testing"

// Goal: a message id leads back to its place for any mask, and has the form of a UUIDv7.
func TestMessageIDIsAPointer(t *testing.T) {
	g := newGen(2)
	seen := map[UUID]bool{}
	var mask [10]byte
	for i := range 5000 {
		if i%50 == 0 {
			copy(mask[:], g.Perm16())
			clear(seen)
		}
		group := RaftGroup(1 + g.IntN(63))
		p := Place{Index(1 + g.u64()%MaxIDIndex), Ordinal(g.u32() % MaxOrdinals)}
		w := Wall(g.u64() >> 8)
		id := MessageID(mask, group, w, p)
		if id[6]>>4 != 7 || id[8]>>6 != 2 {
			t.Fatalf("%v is no UUIDv7", id)
		}
		g2, ms, p2, ok := ParseMessageID(mask, id)
		if !ok || g2 != group || ms != int64(w)/1000&(1<<48-1) || p2 != p {
			t.Fatalf("%v: %d %d %v, want %d %v", id, g2, ms, p2, group, p)
		}
		if seen[id] {
			t.Fatalf("%v twice", id)
		}
		seen[id] = true
	}
}

// Goal: the bits stand where the contract says, so that ids of other versions can be read.
func TestMessageIDPinned(t *testing.T) {
	id := MessageID([10]byte{}, 63, 1_700_000_000_123_456, Place{Index: MaxIDIndex, Ordinal: 5})
	if got := id.String(); got != "018bcfe5-687b-7fff-bfff-ffffffc00005" {
		t.Fatal(got)
	}
	mask := [10]byte{0xff, 0xff, 1, 2, 3, 4, 5, 6, 7, 8}
	if got := MessageID(mask, 1, 0, Place{Index: 1}).String(); got != "00000000-0000-7fbc-8102-030405460708" {
		t.Fatal(got)
	}
	for _, foreign := range []string{
		"018bcfe5-687b-4fff-bfff-ffffffc00005", "018bcfe5-687b-7fff-ffff-ffffffc00005",
		"018bcfe5-687b-703f-bfff-ffffffc00005", "00000000-0000-0000-0000-000000000000",
	} {
		u, _ := ParseUUID(foreign)
		if _, _, p, ok := ParseMessageID([10]byte{}, u); ok {
			t.Errorf("%s taken for place %v", foreign, p)
		}
	}
}

// Goal: the keyed hash is the published SipHash-2-4-128 (its reference vector), bytes in order.
func TestHashIDPinned(t *testing.T) {
	var key [16]byte
	in := make([]byte, 15)
	for i := range key {
		key[i] = byte(i)
	}
	for i := range in {
		in[i] = byte(i)
	}
	h := HashID(key, in)
	if got := UUID(h).String(); got != "5493e999-33b0-a811-7e08-ec0f97cfc3d9" {
		t.Fatal(got)
	}
	if HashID(key, nil) == HashID(key, []byte{0}) {
		t.Fatal("the empty id collides with a zero byte")
	}
}
