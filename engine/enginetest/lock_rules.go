package enginetest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"queen/engine"
	"queen/engine/format"
)

var lockRules = []rule{
	{"S-id-15", "names of locks and owners", func(r *rig) {
		for _, name := range []string{"", "a#b", "a\nb", strings.Repeat("n", 257), "\xff"} {
			op := acquire("o")
			op.Name, op.TTL = name, time.Minute
			res := r.do(&op)
			equal(r, fmt.Sprintf("%q", name), code(res[0].Err), engine.CodeBadRequest)
		}
		for _, owner := range []string{"a\tb", strings.Repeat("o", 257)} {
			op := acquire(owner)
			op.Name, op.TTL = "l", time.Minute
			equal(r, "owner", code(r.do(&op)[0].Err), engine.CodeBadRequest)
		}
		op := acquire(strings.Repeat("o", 256))
		op.Name = strings.Repeat("n", 256)
		r.acquired(op)
	}},
	{"S-lock-1", "one gets it, another is told who has it", func(r *rig) {
		a := r.acquired(acquire("a"))
		equal(r, "slot", a.Slot, 0)
		b := r.lock(acquire("b"))
		check(r, !b.Granted && b.Reason == format.LockHeld && len(b.Holders) == 1, "%+v", b)
		h := b.Holders[0]
		check(r, h.Owner == "a" && h.Token == a.Token && h.Expires == a.Expires && h.Since == h.Renewed, "%+v of %+v", h, a)
	}},
	{"S-lock-2", "a semaphore has as many holders as slots", func(r *rig) {
		slots := map[uint32]bool{}
		for i := range 3 {
			op := acquire(fmt.Sprint("o", i))
			op.Limit = 3
			slots[r.acquired(op).Slot] = true
		}
		equal(r, "distinct slots", len(slots), 3)
		op := acquire("o3")
		op.Limit = 3
		item := r.lock(op)
		check(r, !item.Granted && len(item.Holders) == 3, "%+v", item)
		over := acquire("o")
		over.Name, over.TTL, over.Limit = "l", time.Minute, 1025
		equal(r, "1025", code(r.do(&over)[0].Err), engine.CodeBadRequest)
		semaphoreRace(r)
	}},
	{"S-lock-3", "tokens rise from holder to holder and renewal to renewal", func(r *rig) {
		a := r.acquired(acquire("a"))
		renewed := r.lock(engine.Lock{Op: format.LockRenew, Token: a.Token, Owner: "a"})
		check(r, renewed.Granted && renewed.Token > a.Token, "%+v after %+v", renewed, a)
		r.rolledBack(engine.CodeKVPrecondition, 0, guardOf("l", a))
		released := r.lock(engine.Lock{Op: format.LockRelease, Token: renewed.Token})
		check(r, released.Granted, "%+v", released)
		b := r.acquired(acquire("b"))
		check(r, b.Token > renewed.Token, "token %d after %d", b.Token, renewed.Token)
	}},
	{"S-lock-4", "a stale token is lost", func(r *rig) {
		a := r.acquired(acquire("a"))
		b := r.lock(engine.Lock{Op: format.LockRenew, Token: a.Token + 1000, Owner: "b"})
		check(r, !b.Granted && b.Reason == format.LockLost && len(b.Holders) == 1 && b.Holders[0].Owner == "a", "%+v", b)
		b = r.lock(engine.Lock{Op: format.LockRelease, Token: a.Token + 1000})
		check(r, !b.Granted && b.Reason == format.LockLost && len(b.Holders) == 1, "%+v", b)
		r.lock(engine.Lock{Op: format.LockRelease, Token: a.Token})
		b = r.lock(engine.Lock{Op: format.LockRelease, Token: a.Token})
		check(r, !b.Granted && len(b.Holders) == 0, "%+v", b)
		for _, op := range []engine.Lock{{Op: format.LockRelease}, {Op: format.LockRenew, TTL: time.Minute}} {
			op.Name = "l"
			equal(r, "no token", code(r.do(&op)[0].Err), engine.CodeBadRequest)
		}
	}},
	{"S-lock-5", "an owner may ask twice", func(r *rig) {
		a := r.acquired(acquire("a"))
		again := r.acquired(acquire("a"))
		check(r, again.Already && again.Token == a.Token && again.Expires == a.Expires, "%+v after %+v", again, a)
		renew := engine.Lock{Op: format.LockRenew, Token: a.Token, Owner: "a"}
		first := r.lock(renew)
		resent := r.lock(renew)
		check(r, resent.Granted && resent.Token > first.Token, "%+v after %+v", resent, first)
		nobody := r.lock(engine.Lock{Op: format.LockRenew, Token: a.Token})
		check(r, !nobody.Granted, "a stale token without its owner: %+v", nobody)
		r.lock(engine.Lock{Op: format.LockRelease, Token: resent.Token})
		r.acquired(acquire(""))
		check(r, !r.lock(acquire("")).Granted, "nobody in particular asked twice")
	}},
	{"S-lock-6", "a permit needs a lifetime", func(r *rig) {
		for _, ttl := range []time.Duration{0, -time.Second} {
			op := acquire("a")
			op.Name, op.TTL = "l", ttl
			equal(r, "ttl", code(r.do(&op)[0].Err), engine.CodeBadRequest)
		}
	}},
	{"S-lock-7", "an expired lock is free, its holder commits nothing", func(r *rig) {
		op := acquire("a")
		op.TTL = 10 * time.Second
		a := r.acquired(op)
		r.advance(10*time.Second - time.Microsecond)
		check(r, !r.lock(acquire("b")).Granted, "taken before its time")
		r.advance(time.Microsecond)
		equal(r, "holders", len(r.holders("l")), 0)
		put := kvPut("k", "1")
		r.rolledBack(engine.CodeKVPrecondition, 0, guardOf("l", a), &put)
		b := r.acquired(acquire("b"))
		put = kvPut("k", "2")
		r.rolledBack(engine.CodeKVPrecondition, 1, &put, guardOf("l", a))
		r.holdsNothing("k")
		r.atomic(&put, guardOf("l", b))
		r.holds("k", "2")
	}},
	{"S-lock-9", "a released slot goes to who comes next", func(r *rig) {
		for i := range 2 {
			op := acquire(fmt.Sprint("o", i))
			op.Limit = 2
			r.acquired(op)
		}
		first := r.holders("l")[0]
		r.lock(engine.Lock{Op: format.LockRelease, Token: first.Token, Slot: first.Slot})
		op := acquire("next")
		op.Limit = 2
		equal(r, "slot", r.acquired(op).Slot, first.Slot)
	}},
	{"S-lock-10", "a permit is a KV row", func(r *rig) {
		a := r.acquired(acquire("a"))
		g := guardOf("l", a)
		op := engine.KV{Kind: engine.KVGet, Namespace: g.Namespace, Key: g.Key}
		row := r.kv(op).Row
		equal(r, "version", row.Version, a.Token)
		equal(r, "value", string(row.Value), string(permitValue("a", row.Updated)))
		equal(r, "expires", row.Expires, a.Expires)
	}},
	{"S-lock-11", "get lists holders, a call has distinct locks", func(r *rig) {
		a := r.acquired(acquire(""))
		r.advance(time.Second)
		b := r.lock(engine.Lock{Op: format.LockRenew, Token: a.Token})
		h := r.holders("l")
		check(r, len(h) == 1 && h[0].Owner == "" && h[0].Token == b.Token && h[0].Renewed == h[0].Since+1e6, "%+v", h)
		x, y := acquire("a"), acquire("b")
		x.Name, y.Name, x.TTL, y.TTL = "m", "m", time.Minute, time.Minute
		_, err := r.e.Do(r.ctx, r.caller, engine.Batch{Ops: []engine.Op{&x, &y}})
		equal(r, "twice", code(err), engine.CodeBadRequest)
		r.rolledBack(engine.CodeBadRequest, 0, &x)
	}},
	{"S-lock-12", "a smaller limit sees only low slots", func(r *rig) {
		for i := range 3 {
			op := acquire(fmt.Sprint("o", i))
			op.Limit = 3
			r.acquired(op)
		}
		item := r.lock(acquire("one"))
		check(r, !item.Granted && len(item.Holders) == 1 && item.Holders[0].Slot == 0, "%+v", item)
		check(r, !r.lock(acquire("o2")).Granted, "the owner of slot 2 has no slot below 1")
	}},
}

// semaphoreRace: twelve workers over three permits; at no time are more than three of them inside.
func semaphoreRace(r *rig) {
	var wg sync.WaitGroup
	var inside, most atomic.Int64
	for i := range 12 {
		wg.Go(func() {
			for range 5 {
				op := engine.Lock{Op: format.LockAcquire, Name: "race", Owner: fmt.Sprint("w", i), Limit: 3, TTL: time.Hour}
				item := r.lock(op)
				if !item.Granted {
					continue
				}
				n := inside.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				inside.Add(-1)
				r.lock(engine.Lock{Op: format.LockRelease, Name: "race", Slot: item.Slot, Token: item.Token})
			}
		})
	}
	wg.Wait()
	check(r, most.Load() <= 3, "%d workers held 3 permits", most.Load())
	equal(r, "left", len(r.holders("race")), 0)
}
