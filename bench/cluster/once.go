package main

import "fmt"

// once counts under a key of its own for each call: one that gets no answer is sent again, elsewhere, and counts once.
func (k *client) once(w *crew) {
	for n := 1; !w.stop.Load(); {
		k.pause(5, 25)
		k.idempotency = fmt.Sprintf("%d-%d", k.number, n)
		var out struct{ Results []struct{ Value int } }
		op := map[string]any{"op": "incr", "ns": "once", "key": fmt.Sprint("c", k.number), "delta": 1, "forever": true}
		if k.call("POST", "/api/v1/kv", map[string]any{"operations": []any{op}}, &out) != 200 || len(out.Results) != 1 {
			k.elsewhere()
			continue
		}
		k.h.acked.Add(1)
		k.h.check(counted(n, out.Results[0].Value))
		n++
	}
}

// counted judges what the n-th call of the only one who counts was told.
func counted(n, value int) error {
	if value != n {
		return fmt.Errorf("call %d of a client that counts under an Idempotency-Key each made it %d", n, value)
	}
	return nil
}
