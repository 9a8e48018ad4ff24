package main

// tail reads lanes by offset while the load goes on, from one node after the other. What a node shows it has applied, so it
// is committed, and there for ever.
func (k *client) tail(w *crew) {
	var lanes []*lane
	for _, queue := range []string{plainQueue, indexQueue, natTopic, kafTopic} {
		lanes = append(lanes, k.h.of(k.tenant, queue)...)
	}
	at := make([]int64, len(lanes))
	for !w.made.Load() && !w.over.Load() {
		k.pause(5, 20)
		k.at = (k.at + 1) % k.c.Len()
		i := k.r.IntN(len(lanes))
		l := lanes[i]
		f, ok := k.fetchFrom(k.at, l.queue, l.partition, at[i], 64<<10, 0)
		if !ok {
			continue // it is away, or has not come as far yet
		}
		for j := range f.Records {
			r := &f.Records[j]
			if r.Offset != at[i] {
				k.h.violate("%v: node %d gives offset %d to a reader from %d on", l, k.at+1, r.Offset, at[i])
				break
			}
			writer, n, err := l.parse(r.Offset, r.Payload)
			if err == nil {
				err = l.see(writer, n, r.Offset)
			}
			k.h.check(err)
			at[i]++
		}
	}
}
