package enginetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"queen/engine"
	"queen/engine/format"
)

var kvRules = []rule{
	{"S-id-14", "namespaces and keys", func(r *rig) {
		for _, ns := range []string{"", "A", "-a", "a b", "é", strings.Repeat("a", 65)} {
			op := kvPut("k", "1")
			op.Namespace = ns
			r.rolledBack(engine.CodeBadRequest, 0, &op)
		}
		for _, key := range []string{"", "a\x00b", strings.Repeat("k", 513)} {
			op := kvPut(key, "1")
			r.rolledBack(engine.CodeBadRequest, 0, &op)
		}
		op := kvPut(strings.Repeat("k", 512), "1")
		op.Namespace = "a" + strings.Repeat(".", 63)
		r.written(op)
		for _, key := range []string{"a/b", "é🙂", " ", "..", "\xff", "a#1"} {
			r.written(kvPut(key, `"x"`))
			r.holds(key, `"x"`)
		}
	}},
	{"S-kv-1", "get tells all of a row", func(r *rig) {
		r.holdsNothing("k")
		start := format.Wall(r.clock.Now())
		v := r.written(lasting(kvPut("k", ` { "a" : 1 } `), time.Minute))
		row := r.holds("k", `{"a":1}`)
		equal(r, "version", row.Version, v)
		equal(r, "expires", row.Expires-row.Updated, 60e6)
		check(r, row.Updated >= start, "updated %d before %d", row.Updated, start)
		r.written(kvPut("null", "null"))
		equal(r, "for ever", r.holds("null", "null").Expires, 0)
	}},
	{"S-kv-2", "getMany answers in key order and names what is missing", func(r *rig) {
		r.written(kvPut("b", "2"))
		r.written(kvPut("a", "1"))
		item := r.kv(engine.KV{Kind: engine.KVGetMany, Namespace: "ns", Keys: []string{"c", "b", "a", "b"}})
		equal(r, "rows", keysOf(item), "a b ")
		equal(r, "missing", fmt.Sprint(item.Missing), "[c]")
		check(r, string(item.Rows[1].Value) == "2" && !item.Truncated, "%+v", item)
	}},
	{"S-kv-3", "pages of a prefix", func(r *rig) {
		for _, key := range []string{"a", "b", "b1", "b2", "b3", "c", "b\xff"} {
			r.written(kvPut(key, `"`+strings.Repeat("x", 10)+`"`))
		}
		equal(r, "all", keysOf(r.page(kvOp(0, "b"))), "b b1 b2 b3 b\xff ")
		op := kvOp(0, "b")
		op.Limit, op.KeysOnly = 2, true
		got := ""
		for {
			item := r.page(op)
			check(r, len(item.Rows) <= 2 && item.Rows[0].Value == nil, "page %+v", item)
			if got += keysOf(item); !item.Truncated {
				break
			}
			op.After = item.Next
		}
		equal(r, "by pages", got, "b b1 b2 b3 b\xff ")
		for i := range 120 {
			r.written(kvPut(fmt.Sprintf("many%03d", i), "1"))
		}
		item := r.page(kvOp(0, "many"))
		check(r, len(item.Rows) == 100 && item.Truncated && item.Next == "many099", "default limit: %d rows, next %q", len(item.Rows), item.Next)
		op = kvOp(engine.KVPrefix, "")
		r.rolledBack(engine.CodeBadRequest, 0, &op)
	}},
	{"S-kv-4", "put replaces value and lifetime", func(r *rig) {
		r.written(lasting(kvPut("k", "1"), time.Minute))
		r.written(kvPut("k", `"two"`))
		r.advance(time.Hour)
		r.holds("k", `"two"`)
	}},
	{"S-kv-5", "one of many is first", func(r *rig) {
		r.written(kvAbsent("k", "1"))
		row := r.loses(kvAbsent("k", "2"), format.KVExists, "1")
		equal(r, "version", row.Version, r.holds("k", "1").Version)
		var wg sync.WaitGroup
		won := make([]bool, 8)
		for i := range won {
			wg.Go(func() { won[i] = r.kv(kvAbsent("race", fmt.Sprint(i))).Applied })
		}
		wg.Wait()
		winners := 0
		for i := range won {
			if won[i] {
				winners++
				r.holds("race", fmt.Sprint(i))
			}
		}
		equal(r, "winners", winners, 1)
	}},
	{"S-kv-6", "a version of nothing creates nothing", func(r *rig) {
		r.loses(expecting(kvPut("k", "1"), 7), format.KVAbsent, "")
		r.holdsNothing("k")
	}},
	{"S-kv-7", "a version wins once", func(r *rig) {
		v := r.written(kvPut("k", "1"))
		next := r.written(expecting(kvPut("k", "2"), v))
		row := r.loses(expecting(kvPut("k", "3"), v), format.KVVersion, "2")
		equal(r, "told", row.Version, next)
	}},
	{"S-kv-8", "delete", func(r *rig) {
		r.loses(kvOp(engine.KVDelete, "k"), format.KVAbsent, "")
		v := r.written(kvPut("k", "1"))
		r.loses(expecting(kvOp(engine.KVDelete, "k"), v+1), format.KVVersion, "1")
		item := r.kv(expecting(kvOp(engine.KVDelete, "k"), v))
		check(r, item.Applied && !item.Found && item.Row.Version > v, "%+v", item)
		r.holdsNothing("k")
		check(r, r.written(kvPut("k", "2")) > item.Row.Version, "a version is not above that of the delete before it")
	}},
	{"S-kv-9", "counters stay inside their bounds", func(r *rig) {
		op := kvIncr("n", 1)
		op.Max = whole(2)
		for i := range 2 {
			item := r.kv(op)
			equal(r, "count", string(item.Row.Value), fmt.Sprint(i+1))
		}
		r.loses(op, format.KVLimit, "2")
		op.Key, op.Delta = "first", whole(3)
		r.loses(op, format.KVLimit, "")
		r.holdsNothing("first")
		op = kvIncr("n", -3)
		op.Min = whole(0)
		r.loses(op, format.KVLimit, "2")
		op = kvIncr("n", 0)
		op.Delta = format.Number{Kind: format.FloatNumber, Float: 0.5}
		r.written(op)
		r.holds("n", "2.5")
		r.written(kvPut("big", "9223372036854775807"))
		r.loses(kvIncr("big", 1), format.KVLimit, "9223372036854775807")
		r.written(kvIncr("big", -1))
		r.holds("big", "9223372036854775806")
	}},
	{"S-kv-10", "what is expired counts as nothing, what is no number does not count", func(r *rig) {
		r.written(lasting(kvPut("k", `"text"`), time.Minute))
		r.loses(kvIncr("k", 1), format.KVType, `"text"`)
		r.advance(time.Minute)
		r.written(kvIncr("k", 5))
		r.holds("k", "5")
	}},
	{"S-kv-11", "a counter's lifetime is that of its creation", func(r *rig) {
		r.written(lasting(kvIncr("n", 1), time.Minute))
		r.advance(30 * time.Second)
		r.written(lasting(kvIncr("n", 1), time.Hour))
		r.advance(30*time.Second - time.Microsecond)
		r.holds("n", "2")
		r.advance(time.Microsecond)
		r.holdsNothing("n")
		r.written(lasting(kvIncr("n", 1), time.Minute))
		r.holds("n", "1")
		r.advance(time.Minute)
		r.holdsNothing("n")
	}},
	{"S-kv-13", "an expired row is gone at once, for every op", func(r *rig) {
		v := r.written(lasting(kvPut("k", "1"), 10*time.Second))
		r.written(kvPut("k2", "1"))
		r.advance(10*time.Second - time.Microsecond)
		r.holds("k", "1")
		r.advance(time.Microsecond)
		r.holdsNothing("k")
		equal(r, "prefix", keysOf(r.page(kvOp(0, "k"))), "k2 ")
		item := r.kv(engine.KV{Kind: engine.KVGetMany, Namespace: "ns", Keys: []string{"k"}})
		equal(r, "missing", len(item.Missing), 1)
		r.loses(expecting(kvOp(engine.KVCheck, "k"), v), format.KVAbsent, "")
		r.loses(expecting(kvPut("k", "2"), v), format.KVAbsent, "")
		r.loses(kvOp(engine.KVDelete, "k"), format.KVAbsent, "")
		r.written(kvAbsent("k", "3"))
		r.holds("k", "3")
	}},
	{"S-kv-14", "versions of a key only rise", func(r *rig) {
		last := uint64(0)
		rises := func(op engine.KV) {
			r.t.Helper()
			v := r.written(op)
			check(r, v > last && v < 1<<53, "version %d after %d", v, last)
			last = v
		}
		rises(kvPut("k", "1"))
		rises(kvPut("k", "1"))
		check(r, r.kv(kvOp(engine.KVDelete, "k")).Applied, "delete")
		rises(lasting(kvPut("k", "1"), time.Second))
		r.advance(time.Minute)
		rises(kvIncr("k", 1))
		rises(kvPut("other", "1"))
	}},
	{"S-kv-15", "a check looks and writes nothing", func(r *rig) {
		v := r.written(kvPut("k", "1"))
		item := r.kv(expecting(kvOp(engine.KVCheck, "k"), v))
		check(r, item.Applied && item.Row.Version == v && item.Row.Value == nil, "%+v", item)
		equal(r, "absent", r.kv(expecting(kvOp(engine.KVCheck, "none"), 0)).Applied, true)
		r.loses(expecting(kvOp(engine.KVCheck, "k"), 0), format.KVExists, "1")
		r.loses(expecting(kvOp(engine.KVCheck, "k"), v+1), format.KVVersion, "1")
		r.loses(expecting(kvOp(engine.KVCheck, "none"), v), format.KVAbsent, "")
		equal(r, "version", r.holds("k", "1").Version, v)
		op := kvOp(engine.KVCheck, "k")
		r.rolledBack(engine.CodeBadRequest, 0, &op)
	}},
	{"S-kv-16", "a lost op stops nothing, a lost required one everything", func(r *rig) {
		r.written(kvPut("k", "1"))
		a, b, c := kvPut("a", "1"), kvAbsent("k", "2"), kvPut("c", "1")
		res := r.atomic(&a, &b, &c)
		check(r, res[0].KV.Applied && !res[1].KV.Applied && res[2].KV.Applied, "%+v", res)
		a, b, c = kvPut("a", "2"), required(b), kvPut("c", "2")
		e := r.rolledBack(engine.CodeKVPrecondition, 1, &a, &b, &c)
		check(r, e.Failed.KV.Reason == format.KVExists && string(e.Failed.KV.Row.Value) == "1", "%+v", e.Failed)
		r.holds("a", "1")
		r.holds("c", "1")
	}},
	{"S-kv-17", "reads of a call that writes see its writes, others what was answered", func(r *rig) {
		read, write, page := kvOp(engine.KVGet, "k"), kvPut("k", "1"), kvOp(engine.KVPrefix, "k")
		res := r.atomic(&read, &page, &write)
		check(r, string(res[0].KV.Row.Value) == "1" && len(res[1].KV.Rows) == 1, "%+v", res)
		res = r.do(&read, &write)
		equal(r, "plain", string(res[0].KV.Row.Value), "1")
		r.holds("k", "1")
	}},
	{"S-kv-18", "no increment is lost or doubled", func(r *rig) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 25 {
					r.written(kvIncr("n", 1))
				}
			})
		}
		wg.Wait()
		r.holds("n", "200")
	}},
	{"S-kv-19", "limits of a call", func(r *rig) {
		fits, over := kvPut("k", `"`+strings.Repeat("x", 64<<10-2)+`"`), kvPut("k", `"`+strings.Repeat("x", 64<<10-1)+`"`)
		r.written(fits)
		r.rolledBack(engine.CodeTooLarge, 0, &over)
		for _, value := range []string{"", "{", "1 2", "\"\xff\"", "nul"} {
			op := kvPut("k", value)
			r.rolledBack(engine.CodeBadRequest, 0, &op)
		}
		var ops []engine.Op
		for i := range 257 {
			op := kvPut(fmt.Sprint(i), "1")
			ops = append(ops, &op)
		}
		r.refusedAll(engine.CodeBadRequest, ops...)
		r.holdsNothing("0")
		r.atomic(ops[:256]...)
		a, b := kvPut("twice", "1"), kvOp(engine.KVDelete, "twice")
		r.refusedAll(engine.CodeBadRequest, &a, &b)
		many := engine.KV{Kind: engine.KVGetMany, Namespace: "ns"}
		for i := range 1025 {
			many.Keys = append(many.Keys, fmt.Sprint(i))
		}
		r.refusedAll(engine.CodeBadRequest, &many)
		r.holdsNothing("twice")
	}},
	{"S-kv-19", "a page ends at 4 MiB", func(r *rig) {
		for i := range 70 {
			r.written(kvPut(fmt.Sprintf("k%02d", i), `"`+strings.Repeat("x", 64<<10-2)+`"`))
		}
		first := r.page(kvOp(0, "k"))
		check(r, first.Truncated && len(first.Rows) > 32 && len(first.Rows) < 70, "%d rows", len(first.Rows))
		op := kvOp(0, "k")
		op.After = first.Next
		rest := r.page(op)
		equal(r, "rows", len(first.Rows)+len(rest.Rows), 70)
	}},
	{"S-kv-23", "namespaces are listed with their rows", func(r *rig) {
		for _, at := range []string{"b/1", "a/1", "b/2"} {
			ns, key, _ := strings.Cut(at, "/")
			r.written(engine.KV{Kind: engine.KVPut, Namespace: ns, Key: key, Value: []byte("1")})
		}
		r.as(3).written(kvPut("k", "1"))
		all, err := r.e.Keyed().Namespaces(r.ctx, r.caller)
		check(r, err == nil && fmt.Sprint(all) == "[{a 1} {b 2}]", "%v %v", all, err)
		item, err := r.e.Keyed().Browse(r.ctx, r.caller, engine.KVBrowse{Namespace: "b", Limit: 1})
		check(r, err == nil && keysOf(item) == "1 " && item.Truncated && item.Next == "1", "%+v %v", item, err)
	}},
	{"S-kv-24", "tenants share no key", func(r *rig) {
		other := r.as(9)
		r.written(kvPut("k", "1"))
		other.holdsNothing("k")
		other.written(kvAbsent("k", "2"))
		r.holds("k", "1")
		equal(r, "prefix", len(other.page(kvOp(0, "k")).Rows), 1)
		check(r, other.kv(kvOp(engine.KVDelete, "k")).Applied, "delete")
		r.holds("k", "1")
	}},
	{"S-kv-22", "a prefix can be watched", watchRule},
	{"S-kv-3", "pages of a snapshot are of one moment", snapshotRule},
}

// snapshotRule is R-15: whatever happens between them, pages of a snapshot tell what held at the first one.
func snapshotRule(r *rig) {
	for _, key := range []string{"a1", "a2", "a3", "a4", "a5", "b1"} {
		r.written(kvPut(key, "1"))
	}
	r.written(lasting(kvPut("a6", "1"), 10*time.Second))
	op := kvOp(engine.KVPrefix, "a")
	op.Limit, op.Snapshot = 2, engine.SnapshotNew
	page := r.page(op)
	token := page.Snapshot
	check(r, page.Truncated && token != "" && token != engine.SnapshotNew, "first page %+v", page)
	r.written(kvPut("a3", "2"))
	r.written(kvPut("a35", "2"))
	check(r, r.kv(kvOp(engine.KVDelete, "a4")).Applied, "delete")
	r.advance(10 * time.Second)
	equal(r, "now", keysOf(r.page(kvOp(0, "a"))), "a1 a2 a3 a35 a5 ")
	keys := keysOf(page)
	for page.Truncated {
		equal(r, "token", page.Snapshot, token)
		op.Snapshot, op.After = token, page.Next
		page = r.page(op)
		keys += keysOf(page)
		for _, row := range page.Rows {
			equal(r, row.Key, string(row.Value), "1")
		}
	}
	equal(r, "keys", keys, "a1 a2 a3 a4 a5 a6 ")
	equal(r, "token of the last page", page.Snapshot, "")
	item, err := r.e.Keyed().Browse(r.ctx, r.caller, engine.KVBrowse{Namespace: "ns", After: "a4", Limit: 1, Snapshot: token})
	check(r, err == nil && keysOf(item) == "a5 " && item.Snapshot == token, "Browse: %+v, %v", item, err)
	now, then := kvOp(engine.KVGet, "a3"), op
	then.After = "a2"
	items, err := r.e.Keyed().KV(r.ctx, r.caller, []engine.KV{then, now})
	check(r, err == nil && string(items[0].Rows[0].Value) == "1" && string(items[1].Row.Value) == "2", "both moments: %+v, %v", items, err)

	op.Limit, op.Snapshot, op.After = 100, engine.SnapshotNew, ""
	equal(r, "token of an only page", r.page(op).Snapshot, "")
	expired := func(c engine.Caller, token string) {
		r.t.Helper()
		op.Snapshot = token
		_, err := r.e.Keyed().KV(r.ctx, c, []engine.KV{op})
		equal(r, "code", code(err), engine.CodeSnapshotExpired)
		_, err = r.e.Keyed().Browse(r.ctx, c, engine.KVBrowse{Namespace: "ns", Snapshot: token})
		equal(r, "code", code(err), engine.CodeSnapshotExpired)
	}
	expired(r.caller, token+"0")
	expired(r.as(7).caller, token)
	get := kvOp(engine.KVGet, "a1")
	get.Snapshot = token
	_, err = r.e.Keyed().KV(r.ctx, r.caller, []engine.KV{get})
	equal(r, "code", code(err), engine.CodeBadRequest)
	put := kvPut("c", "1")
	op.Snapshot = engine.SnapshotNew
	r.rolledBack(engine.CodeBadRequest, 1, &put, &op)
	r.rolledBack(engine.CodeBadRequest, 0, &op)
	r.holdsNothing("c")
	op.Snapshot = strings.Repeat("1", 65)
	_, err = r.e.Keyed().KV(r.ctx, r.caller, []engine.KV{op})
	equal(r, "code", code(err), engine.CodeBadRequest)
	_, err = r.e.Keyed().Browse(r.ctx, r.caller, engine.KVBrowse{Namespace: "ns", Snapshot: op.Snapshot})
	equal(r, "code", code(err), engine.CodeBadRequest)
}

// watchRule is R-15: every change in order of version, deletions and the ends of rows among them.
func watchRule(r *rig) {
	v := r.written(kvPut("w1", "1"))
	w, err := r.e.Keyed().WatchKV(r.ctx, r.caller, engine.KVWatch{Namespace: "ns", Prefix: "w"})
	check(r, err == nil, "WatchKV: %v", err)
	defer w.Close()
	r.written(kvPut("x", "1"))
	r.as(5).written(kvPut("w1", "7"))
	r.written(lasting(kvPut("w2", "2"), time.Minute))
	r.written(kvPut("w1", "3"))
	check(r, r.kv(kvOp(engine.KVDelete, "w1")).Applied, "delete")
	seen := r.watched(w, 3)
	equal(r, "changes", seen, "w2=2 w1=3 -w1 ")
	r.advance(time.Minute)
	r.advance(time.Minute) // ends of rows are noticed a little later
	equal(r, "the end of a row", r.watched(w, 1), "-w2 ")
	again, err := r.e.Keyed().WatchKV(r.ctx, r.caller, engine.KVWatch{Namespace: "ns", Prefix: "w", From: v})
	check(r, err == nil, "WatchKV: %v", err)
	defer again.Close()
	equal(r, "resumed", r.watched(again, 4), "w2=2 w1=3 -w1 -w2 ")
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	_, _, err = again.Next(ctx)
	equal(r, "nothing more", code(err), engine.CodeTimeout)
}

// watched reads n changes and says what they are, in order, each version above the one before.
func (r *rig) watched(w engine.KVWatcher, n int) string {
	r.t.Helper()
	out, last := "", uint64(0)
	for got := 0; got < n; {
		changes, lost, err := w.Next(r.ctx)
		check(r, err == nil && !lost, "Next: lost %v, %v", lost, err)
		for _, c := range changes {
			check(r, c.Row.Version > last, "version %d after %d", c.Row.Version, last)
			last = c.Row.Version
			if c.Deleted {
				out += "-" + c.Row.Key + " "
			} else {
				out += c.Row.Key + "=" + string(c.Row.Value) + " "
			}
			got++
		}
	}
	return out
}
