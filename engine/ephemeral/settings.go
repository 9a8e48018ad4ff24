package ephemeral

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
)

// Bounds of a queue's settings. The first two are defaults and ceilings at once (S-eph-7).
const (
	MaxLength = 10_000
	MaxBytes  = 16 << 20

	maxTTLSeconds   = 366 * 86_400
	maxLeaseSeconds = 86_400
	maxRetryLimit   = 1_000
	maxWindowMillis = 300_000
	maxWindowCount  = MaxBatch

	defaultLeaseSeconds = 30
	defaultRetryLimit   = 5
)

// Policy says what a push to a full queue does.
type Policy string

const (
	// Reject refuses the push; it is the default.
	Reject Policy = "reject"
	// DropOldest makes room by dropping the queue's oldest messages, counted.
	DropOldest Policy = "dropOldest"
)

// Window holds a waiting pop back until Count messages are ready or Millis have passed since the first was, so that
// batches are fat. Millis 0 is no window, Count 0 waits for a full batch.
type Window struct {
	Millis, Count int64
}

// Settings are the options of one queue. They shape what is in memory; only a declaration of them outlives a restart.
type Settings struct {
	// MaxBytes bounds the payload bytes, MaxLength the messages; 0 means the default, which is also the ceiling.
	MaxBytes  int64
	MaxLength int64
	Policy    Policy
	// TTLSeconds drops messages older than it, consumed or not; 0 is for ever (S-eph-8).
	TTLSeconds int64
	// LeaseSeconds is how long a consumer has for an ack; 0 means the default, 30 s.
	LeaseSeconds int64
	// RetryLimit is after how many failed deliveries a message is dropped, counted; 0 is as 1 (S-eph-6).
	RetryLimit int64
	Window     Window
}

// DefaultSettings are those of an implicit queue.
func DefaultSettings() Settings {
	return Settings{MaxBytes: MaxBytes, MaxLength: MaxLength, Policy: Reject, LeaseSeconds: defaultLeaseSeconds,
		RetryLimit: defaultRetryLimit}
}

// Normal fills in defaults and refuses what is out of bounds, naming field and limit.
func (s Settings) Normal() (Settings, error) {
	d := DefaultSettings()
	fill := func(v *int64, def int64) {
		if *v == 0 {
			*v = def
		}
	}
	fill(&s.MaxBytes, d.MaxBytes)
	fill(&s.MaxLength, d.MaxLength)
	fill(&s.LeaseSeconds, d.LeaseSeconds)
	if s.Policy == "" {
		s.Policy = d.Policy
	}
	for _, f := range []struct {
		name    string
		v, most int64
	}{
		{"maxBytes", s.MaxBytes, MaxBytes}, {"maxLength", s.MaxLength, MaxLength},
		{"ttlSeconds", s.TTLSeconds, maxTTLSeconds}, {"leaseSeconds", s.LeaseSeconds, maxLeaseSeconds},
		{"retryLimit", s.RetryLimit, maxRetryLimit}, {"windowBuffer.ms", s.Window.Millis, maxWindowMillis},
		{"windowBuffer.count", s.Window.Count, maxWindowCount},
	} {
		if f.v < 0 || f.v > f.most {
			limit := "0 to " + strconv.FormatInt(f.most, 10)
			return s, bad(f.name, limit, f.name+" must be "+limit)
		}
	}
	if s.Policy != Reject && s.Policy != DropOldest {
		return s, bad("policy", "reject or dropOldest", "policy must be reject or dropOldest")
	}
	return s, nil
}

// The value of a declaration's row (FORMAT.md, administrative rows):
// | version u8 = 1 | policy u8: 1 reject, 2 dropOldest | maxBytes | maxLength | ttlSeconds | leaseSeconds | retryLimit |
// windowBuffer ms | windowBuffer count |, numbers as uvarint.
const settingsVersion = 1

var policies = [...]Policy{1: Reject, 2: DropOldest}

func (s *Settings) numbers() []*int64 {
	return []*int64{&s.MaxBytes, &s.MaxLength, &s.TTLSeconds, &s.LeaseSeconds, &s.RetryLimit, &s.Window.Millis, &s.Window.Count}
}

// Encode is the value of a declaration's row; the settings are normal.
func (s Settings) Encode() []byte {
	b := []byte{settingsVersion, byte(slices.Index(policies[:], s.Policy))}
	for _, n := range s.numbers() {
		b = binary.AppendUvarint(b, uint64(*n))
	}
	return b
}

// DecodeSettings reads the value of a declaration's row.
func DecodeSettings(b []byte) (s Settings, err error) {
	if len(b) < 2 || b[0] != settingsVersion || b[1] == 0 || int(b[1]) >= len(policies) {
		return s, fmt.Errorf("ephemeral: declaration of %d bytes, version or policy unknown: % x", len(b), b[:min(len(b), 2)])
	}
	s.Policy = policies[b[1]]
	rest := b[2:]
	for _, n := range s.numbers() {
		v, size := binary.Uvarint(rest)
		if size <= 0 || v > 1<<62 {
			return s, fmt.Errorf("ephemeral: declaration of %d bytes ends early", len(b))
		}
		*n, rest = int64(v), rest[size:]
	}
	if len(rest) > 0 {
		return s, fmt.Errorf("ephemeral: declaration has %d bytes too many", len(rest))
	}
	return s.Normal()
}

func (s *Settings) lease() int64  { return s.LeaseSeconds * 1e6 }
func (s *Settings) ttl() int64    { return s.TTLSeconds * 1e6 }
func (s *Settings) window() int64 { return s.Window.Millis * 1e3 }
