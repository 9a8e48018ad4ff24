package machine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"queen/engine/format"
)

// Lines of scripts about brackets and keyed rows:
//
//	txn PARTS / once KEY BODY PARTS [keep=1h]
//	kv put|delete|incr|check NS/KEY [value or delta] [expect=N] [required] [keep=5s] [min=N] [max=N]
//	lock acquire NAME [owner=X] [limit=N] [keep=5s] / renew NAME [slot=N] token=N [owner=X] [since=-5s] / release NAME [slot=N] token=N
//	timer schedule Q/KEY due=5s|at:5s [part=P] [tx=ID] [recur=R] / cancel|pause|resume Q/KEY / failed Q/KEY version=N due=1s [counted] REASON
//	timer dead Q/KEY version=N [due=at:5s] [part=P] [tx=ID] REASON
//	fire Q/KEY version=N [next=5s] [part=P] [tx=ID]
//	position Q/P GROUP OFFSET|end|forget [create=all|new] [note=TEXT]
func (r *rig) addKeyed(plain []string, by map[string]string, cmd string) bool {
	keep := int64(0)
	if v, ok := by["keep"]; ok {
		keep = dur(v).Microseconds()
	}
	switch cmd {
	case "txn":
		r.buf.AddTxn(&format.Txn{Parts: uint32(num(plain[0]))})
	case "once":
		c := format.Once{Tenant: format.DefaultTenant, Parts: uint32(num(plain[2])), Keep: max(keep, 1)}
		copy(c.Key[:], plain[0])
		copy(c.Digest[:], plain[1])
		r.buf.AddOnce(&c)
	case "kv":
		r.addKV(plain, by, keep)
	case "lock":
		c := format.Lock{
			Tenant: format.DefaultTenant, Op: map[string]format.LockOp{"acquire": 1, "renew": 2, "release": 3}[plain[0]],
			Name: []byte(plain[1]), Owner: []byte(by["owner"]), Limit: uint32(max(num(by["limit"]), 1)), Slot: uint32(num(by["slot"])),
			Token: uint64(num(by["token"])), Keep: max(keep, 1),
		}
		if v, ok := by["since"]; ok {
			c.Since = r.wall(v)
		}
		r.buf.AddLock(&c)
	case "timer":
		r.addTimer(plain, by)
	case "fire":
		r.addFire(plain, by)
	case "position":
		r.addPosition(plain, by)
	default:
		return false
	}
	return true
}

// value reads a JSON text and what it says as a number.
func value(s string) (text []byte, n format.Number) {
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		return []byte(s), format.Number{Kind: format.IntNumber, Int: v}
	}
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return []byte(s), format.Number{Kind: format.FloatNumber, Float: v}
	}
	return []byte(s), format.Number{}
}

func (r *rig) addKV(plain []string, by map[string]string, keep int64) {
	ns, key, _ := strings.Cut(plain[1], "/")
	c := format.KV{
		Tenant: format.DefaultTenant, Op: map[string]format.KVOp{"put": 1, "delete": 2, "incr": 3, "check": 4}[plain[0]],
		Namespace: []byte(ns), Key: []byte(key), Required: has(plain, "required"), Keep: keep,
	}
	if v, ok := by["expect"]; ok {
		c.HasExpect, c.Expect = true, uint64(num(v))
	}
	if len(plain) > 2 && plain[2] != "required" {
		c.Value, c.Number = value(plain[2])
	}
	if v, ok := by["min"]; ok {
		_, c.Min = value(v)
	}
	if v, ok := by["max"]; ok {
		_, c.Max = value(v)
	}
	r.buf.AddKV(&c)
}

func (r *rig) addTimer(plain []string, by map[string]string) {
	queue, key, _ := strings.Cut(plain[1], "/")
	c := format.Timer{
		Tenant: format.DefaultTenant, Op: map[string]format.TimerOp{"schedule": 1, "cancel": 2, "failed": 3, "dead": 4, "pause": 5, "resume": 6}[plain[0]],
		Queue: []byte(queue), Key: []byte(key), Partition: []byte(by["part"]), TransactionID: []byte(by["tx"]),
		Recur: []byte(by["recur"]), Frame: testFrame([]format.FrameMessage{{Payload: []byte("t")}}), Version: uint64(num(by["version"])),
	}
	if v, ok := by["due"]; ok {
		if at, abs := strings.CutPrefix(v, "at:"); abs {
			c.Due = r.wall(at)
		} else {
			c.Due, c.Relative = format.Wall(dur(v).Microseconds()), true
		}
	}
	switch words := plain[2:]; c.Op {
	case format.TimerFailed:
		if c.Counted = has(words, "counted"); c.Counted {
			words = words[1:]
		}
		c.Reason = []byte(strings.Join(words, " "))
	case format.TimerDead:
		c.Reason = []byte(strings.Join(words, " "))
		c.Row = (&format.TimerRow{Partition: c.Partition, TransactionID: c.TransactionID, Frame: c.Frame}).Append(nil)
	}
	r.buf.AddTimer(&c)
}

func (r *rig) addFire(plain []string, by map[string]string) {
	queue, key, _ := strings.Cut(plain[0], "/")
	c := format.Fire{Key: []byte(key), Version: uint64(num(by["version"])), Append: format.Append{
		Tenant: format.DefaultTenant, Queue: []byte(queue), Partition: []byte(by["part"]), Frame: format.FrameNative, Count: 1,
		ExplicitID: true,
	}}
	if v, ok := by["next"]; ok {
		c.Next = r.wall(v)
	}
	if tx, ok := by["tx"]; ok {
		h := format.HashID(hashKey, []byte(tx))
		c.Append.IDs, c.Append.Hashes = format.IDsAll, h[:]
	}
	r.buf.AddFire(&c, testFrame([]format.FrameMessage{{Payload: []byte("t"), ExplicitID: format.UUID{7}}}))
}

func (r *rig) addPosition(plain []string, by map[string]string) {
	queue, part, _ := strings.Cut(plain[0], "/")
	c := format.SetOffset{
		Tenant: format.DefaultTenant, Queue: []byte(queue), Partition: []byte(part), Group: []byte(plain[1]),
		ToEnd: plain[2] == "end", Forget: plain[2] == "forget", Metadata: []byte(by["note"]),
	}
	if !c.ToEnd && !c.Forget {
		c.To = format.Offset(num(plain[2]))
	}
	if v, ok := by["create"]; ok {
		c.Create = true
		c.Start, _ = r.start(v)
	}
	r.buf.AddSetOffset(&c)
}

var kvReasons = map[format.KVReason]string{
	format.KVApplied: "applied", format.KVExists: "exists", format.KVAbsent: "absent", format.KVVersion: "version",
	format.KVLimit: "limit", format.KVType: "type", format.LockHeld: "held", format.LockLost: "lost",
}

var timerStatuses = map[format.TimerStatus]string{
	0: "-", format.TimerScheduled: "scheduled", format.TimerRescheduled: "rescheduled", format.TimerCancelled: "cancelled",
	format.TimerAbsent: "absent", format.TimerFiled: "filed", format.TimerPaused: "paused", format.TimerResumed: "resumed",
}

// in shows a time as a distance from now.
func (r *rig) in(w format.Wall) string {
	if w == 0 {
		return "never"
	}
	return (time.Duration(w-r.m.W()) * time.Microsecond).String()
}

func (r *rig) renderKeyed(b *strings.Builder, out *format.Results, it *format.Result) bool {
	switch it.Kind {
	case format.KindKV:
		v := &out.KVs[it.At]
		fmt.Fprintf(b, " %s v=%d", kvReasons[v.Reason], v.Version)
		if v.Number.Kind != format.NotANumber {
			fmt.Fprintf(b, " n=%s", appendNumber(nil, v.Number))
		}
		if v.Expires != 0 {
			fmt.Fprintf(b, " expires=%s", r.in(v.Expires))
		}
	case format.KindLock:
		v := &out.Locks[it.At]
		fmt.Fprintf(b, " %s slot=%d token=%d", kvReasons[v.Reason], v.Slot, v.Token)
		if v.Already {
			b.WriteString(" already")
		}
		if v.Expires != 0 {
			fmt.Fprintf(b, " expires=%s", r.in(v.Expires))
		}
	case format.KindTimer:
		v := &out.Timers[it.At]
		fmt.Fprintf(b, " %s v=%d due=%s", timerStatuses[v.Status], v.Version, r.in(v.Due))
	case format.KindTxn:
		if it.Code != format.CodeOK {
			fmt.Fprintf(b, " failed=%d", out.Txns[it.At].Failed)
		}
	case format.KindOnce:
		fmt.Fprintf(b, " at %d.%d", out.Onces[it.At].Index, out.Onces[it.At].First)
	case format.KindFire:
		r.renderAppend(b, &out.Appends[it.At])
	default:
		return false
	}
	return true
}

// scriptKeyed shows the rows of the sink in order of their keys, each held against its head.
func (r *rig) scriptKeyed(*datadriven.TestData) string {
	keys := make([]string, 0, len(r.keyed.rows))
	for k := range r.keyed.rows {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, k := range keys {
		value := []byte(r.keyed.rows[k])
		switch k[0] {
		case FamilyKV:
			row, err := format.ParseKVRow(value)
			t, ns, key, _ := format.ParseKVKey([]byte(k[1:]))
			head, ok := r.m.KVHead(t, ns, key)
			fmt.Fprintf(&b, "kv %s/%s v=%d expires=%s %s head=%v,%d err=%v\n", ns, key, row.Version, r.in(row.Expires), row.JSON, ok,
				head.Version, err)
		case FamilyTimer:
			row, err := format.ParseTimerRow(value)
			t, queue, key, _ := format.ParseTimerKey([]byte(k[1:]))
			head, ok := r.m.TimerHead(t, queue, key)
			fmt.Fprintf(&b, "timer %s/%s v=%d tx=%s head=%v,%d due=%s fires=%d attempts=%d %q err=%v", queue, key, row.Version,
				row.TransactionID, ok, head.Version, r.in(head.Due), head.Fires, head.Attempts, head.LastError, err)
			if head.Refused > 0 {
				fmt.Fprintf(&b, " refused=%d", head.Refused)
			}
			if head.Paused {
				b.WriteString(" paused")
			}
			b.WriteByte('\n')
		case FamilyOnce:
			row, err := format.ParseOnceRow(value)
			var got format.Results
			if err == nil {
				err = format.ParseParts(row.Parts, row.First+1, &got)
			}
			fmt.Fprintf(&b, "once %d.%d parts=%d err=%v\n", row.Index, row.First, len(got.Items), err)
		case FamilyPosition:
			row, err := format.ParsePositionRow(value)
			note := row.Metadata
			fmt.Fprintf(&b, "position %q err=%v\n", note, err)
		}
	}
	for f := byte(1); f < families; f++ {
		if rows, _ := r.m.KeyedSum(f); rows > 0 {
			fmt.Fprintf(&b, "family %d: %d rows\n", f, rows)
		}
	}
	if due, ok := r.m.NextTimer(); ok {
		fmt.Fprintf(&b, "next timer %s\n", r.in(due))
	}
	if due, ok := r.m.NextExpiry(); ok {
		fmt.Fprintf(&b, "next expiry %s\n", r.in(due))
	}
	return b.String()
}
