package frontendhttp

import (
	"encoding/json"
	"testing"
)

// FuzzEphemeralBodies feeds the decoders of the family with hostile bodies: no panic, and what is accepted holds what
// the engine and the answers rely on: payloads are JSON, lists are bounded, settings are no less than 0.
func FuzzEphemeralBodies(f *testing.F) {
	for _, s := range []string{
		`{"queue":"q","partition":"p","messages":[{"payload":{"a":1}},{"payload":null,"x":2}]}`,
		`{"queue":"q","group":null,"acks":[{"id":"e:1:p:0","status":"retry","error":"x"}]}`,
		`{"maxBytes":1,"policy":"dropOldest","windowBuffer":{"ms":1,"count":2}}`, `{"messages":null}`, `{"acks":[{"id":"\ud800"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p ephemeralPushBody
		if p.decode(b) == nil {
			if len(p.payloads) > maxEphemeralItems || p.partition == "" {
				t.Fatalf("%d payloads, partition %q", len(p.payloads), p.partition)
			}
			for _, payload := range p.payloads {
				if !json.Valid(payload) {
					t.Fatalf("%q is not JSON", payload)
				}
			}
		}
		var a ephemeralAckBody
		if a.decode(b) == nil && len(a.acks) > maxEphemeralItems {
			t.Fatalf("%d acks", len(a.acks))
		}
		if !json.Valid(b) {
			return
		}
		if s, err := ephemeralOptions(b); err == nil && (s.MaxLength < 0 || s.Window.Count < 0) {
			t.Fatalf("%+v", s)
		}
	})
}
