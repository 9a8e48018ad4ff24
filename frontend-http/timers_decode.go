package frontendhttp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"queen/engine"
	"queen/engine/format"
)

// timerOps bounds the ops of a call (S-tmr-13).
const timerOps = 256

// timerBatch is the decoded ops of one call.
type timerBatch struct {
	ops  []engine.Timer
	txns []string // what a cancel echoes, and what a schedule told
	seen map[string]bool
	now  format.Wall
}

// serverOwned are the fields of a timer that only the broker fills in (S-tmr-12).
var serverOwned = map[string]bool{"producerSub": true, "messageId": true, "deliverAt": true, "attempts": true,
	"tenant": true, "tenantId": true}

// add decodes one op; a refusal says which it is.
func (b *timerBatch) add(ms jsonObject) *keyedRefusal {
	bad := b.decode(ms)
	if bad != nil {
		bad.detail = inOperation(len(b.ops), bad.detail)
	}
	return bad
}

// inOperation says of which op of a call a refusal speaks.
func inOperation(i int, detail string) string { return fmt.Sprintf("operation %d: %s", i, detail) }

func (b *timerBatch) decode(ms jsonObject) *keyedRefusal {
	for _, m := range ms {
		if key := string(m.key); serverOwned[key] || strings.HasPrefix(key, "_") {
			return timersBad("timers_server_owned_field", key+" is filled in by the broker")
		}
	}
	name, _ := ms.text("op")
	op := engine.Timer{}
	var ok bool
	if op.Queue, ok = ms.text("queue"); !ok || op.Queue == "" {
		return timersBad("timers_queue_required", "queue must be a non-empty string")
	}
	if op.Key, ok = ms.text("timerKey"); !ok || op.Key == "" || len(op.Key) > engine.MaxKVKey ||
		strings.IndexByte(op.Key, 0) >= 0 {
		return timersBad("timers_bad_key", "timerKey must be a string of 1 to 512 bytes without NUL")
	}
	if checkNames(len(op.Queue), 0) != nil {
		return &keyedRefusal{413, "payload_too_large", "name_too_long", "tenant and queue exceed the name budget"}
	}
	txn, ok := ms.textOr("txn", "")
	if !ok || len(txn) > format.MaxTransactionID {
		return timersBad("timers_bad_txn", "txn must be a string of at most 65535 bytes")
	}
	switch name {
	case "schedule", "reschedule":
		op.Op = format.TimerSchedule
		if bad := b.schedule(&op, ms); bad != nil {
			return bad
		}
		op.Message.TransactionID = txn
	case "cancel":
		op.Op, op.Message.TransactionID = format.TimerCancel, txn
	case "pause":
		op.Op, op.Message.TransactionID = format.TimerPause, txn
	case "resume":
		op.Op, op.Message.TransactionID = format.TimerResume, txn
	default:
		return timersBad("timers_bad_op", "op must be schedule, reschedule, cancel, pause or resume")
	}
	id := op.Queue + "\x00" + op.Key
	if b.seen == nil {
		b.seen = map[string]bool{}
	}
	if b.seen[id] {
		return timersBad("timers_duplicate_in_call", "the call names timer "+op.Key+" twice")
	}
	b.seen[id] = true
	b.ops, b.txns = append(b.ops, op), append(b.txns, txn)
	return nil
}

// newID is an id that a broker mints: random, in order of time.
func newID() string {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.NewString()
	}
	return id.String()
}

func (b *timerBatch) schedule(op *engine.Timer, ms jsonObject) *keyedRefusal {
	var ok bool
	if op.Partition, ok = ms.textOr("partition", format.DefaultPartition); !ok || op.Partition == "" {
		return timersBad("timers_bad_partition", "partition must be a non-empty string")
	}
	if err := checkNames(len(op.Queue), len(op.Partition)); err != nil {
		return &keyedRefusal{413, "payload_too_large", "name_too_long", err.Error()}
	}
	if bad := b.when(op, ms); bad != nil {
		return bad
	}
	if raw := ms.get("encrypted"); !absent(raw) && string(raw) != "false" {
		return timersBad("timers_bad_request", "a payload that is encrypted already is not accepted")
	}
	return timerPayload(op, ms)
}

// when reads exactly one of delayMs, at and cron.
func (b *timerBatch) when(op *engine.Timer, ms jsonObject) *keyedRefusal {
	delay, at, cron := ms.get("delayMs"), ms.get("at"), ms.get("cron")
	given := 0
	for _, raw := range [][]byte{delay, at, cron} {
		if !absent(raw) {
			given++
		}
	}
	if given != 1 {
		return timersBad("timers_delay_required", "exactly one of delayMs, at and cron is needed")
	}
	if absent(cron) && (ms.has("tz") || ms.has("catchUp") || ms.has("maxFires") || ms.has("until")) {
		return timersBad("timers_bad_request", "tz, catchUp, maxFires and until go with cron")
	}
	switch {
	case !absent(delay):
		n, ok := wholeNumber(delay)
		if !ok {
			return timersBad("timers_delay_required", "delayMs must be an integer")
		}
		if n > engine.MaxTimerHorizon.Milliseconds() {
			return beyondHorizon()
		}
		op.Delay = time.Duration(max(n, -1)) * time.Millisecond
	case !absent(at):
		s, _ := ms.text("at")
		w, ok := parseInstant(s)
		if !ok || w == 0 {
			return timersBad("timers_bad_at", "at must be an ISO-8601 instant")
		}
		if w > b.now+format.Wall(engine.MaxTimerHorizon.Microseconds()) {
			return beyondHorizon()
		}
		op.At = w
	default:
		return b.repeating(op, ms)
	}
	return nil
}

func beyondHorizon() *keyedRefusal {
	return &keyedRefusal{403, "timer_horizon_exceeded", "timers_horizon", "a timer may be at most 90 days ahead"}
}

func (b *timerBatch) repeating(op *engine.Timer, ms jsonObject) *keyedRefusal {
	var ok bool
	if op.Cron, ok = ms.text("cron"); !ok || op.Cron == "" {
		return timersBad("timers_bad_cron", "cron must be a string of five fields")
	}
	if op.Zone, ok = ms.textOr("tz", ""); !ok {
		return timersBad("timers_bad_cron", "tz must be the name of a time zone")
	}
	policy, _ := ms.textOr("catchUp", "one")
	switch policy {
	case "one":
	case "all":
		op.CatchUp = engine.CatchUpAll
	case "skip":
		op.CatchUp = engine.CatchUpSkip
	default:
		return timersBad("timers_bad_catch_up", "catchUp must be one, all or skip")
	}
	if bad := timerEnd(op, ms); bad != nil {
		return bad
	}
	if err := op.CheckCron(b.now); err != nil {
		detail := err.Field + ": " + err.Message
		if err.Limit != "" {
			detail += ", want " + err.Limit
		}
		return timersBad("timers_bad_cron", detail)
	}
	return nil
}

// timerEnd reads when a recurring timer is done: after so many fires, or at the last time that is not later.
func timerEnd(op *engine.Timer, ms jsonObject) *keyedRefusal {
	if raw := ms.get("maxFires"); !absent(raw) {
		n, ok := wholeNumber(raw)
		if !ok || n < 1 {
			return timersBad("timers_bad_max_fires", "maxFires must be an integer of at least 1")
		}
		op.MaxFires = uint64(n)
	}
	if !absent(ms.get("until")) {
		s, _ := ms.text("until")
		w, ok := parseInstant(s)
		if !ok || w <= 0 {
			return timersBad("timers_bad_until", "until must be an ISO-8601 instant after 1970")
		}
		op.Until = w
	}
	return nil
}

// timerPayload decodes base64, and zstd where the caller says so. Bytes that are not JSON are delivered as bytes.
func timerPayload(op *engine.Timer, ms jsonObject) *keyedRefusal {
	text, ok := ms.text("payload")
	if !ok {
		return timersBad("timers_payload_required", "payload must be a base64 string")
	}
	if base64.StdEncoding.DecodedLen(len(text)) > 2*engine.MaxTimerPayload {
		return tooLarge("timers_payload_too_large", "payload exceeds 1 MiB")
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		if data, err = base64.RawStdEncoding.DecodeString(text); err != nil {
			return timersBad("timers_payload_not_base64", "payload is not base64")
		}
	}
	packed, ok := ms.truth("payloadZstd")
	if !ok {
		return timersBad("timers_bad_request", "payloadZstd must be true or false")
	}
	if packed {
		if data, err = unzstd(data); err != nil {
			return timersBad("timers_bad_request", "payload is not zstd, or larger than 1 MiB")
		}
	}
	if len(data) > engine.MaxTimerPayload {
		return tooLarge("timers_payload_too_large", "payload exceeds 1 MiB")
	}
	op.Message.Payload = data
	if !utf8.Valid(data) || !json.Valid(data) {
		op.Message.ContentType = binaryType
	}
	return nil
}

// unzstd is bounded: a small body must not become a large one.
func unzstd(data []byte) ([]byte, error) {
	r, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(4*engine.MaxTimerPayload))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(io.LimitReader(r, engine.MaxTimerPayload+1))
	return b.Bytes(), err // one byte too many is refused for its size by the caller
}
