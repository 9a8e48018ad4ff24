package engine

import (
	"queen/engine/keyed"
)

// canFlush reports whether a checkpoint can hold the keyed rows: without a store they live in memory,
// and then only the log brings them back, so that no checkpoint may be made.
func (k *keyedRows) canFlush() bool { return k.store != nil || k.live.Len() == 0 && k.frozen == nil }

// full reports that the rows of the overlay ask for a checkpoint. Any goroutine may ask.
func (k *keyedRows) full() bool {
	_, full := k.view.Load().LiveBytes()
	return full && k.store != nil
}

// freeze puts a new overlay on top and returns the rows for the flush, nil when there are none. It
// runs in the apply goroutine while no flush is under way. What an earlier flush could not write (a
// full disk) goes along.
func (k *keyedRows) freeze() *keyed.Overlay {
	if k.frozen == nil && k.live.Len() == 0 {
		return nil
	}
	if k.frozen != nil {
		for row := range k.frozen.Rows() {
			if _, newer := k.live.Get(row.Key); newer {
				continue
			}
			// They were taken once, so they are taken again.
			if row.Tombstone {
				_ = k.live.Delete(row.Key)
			} else {
				_ = k.live.Put(row.Key, row.Value)
			}
		}
	}
	k.frozen = k.live
	k.live = keyed.NewOverlay(k.limits)
	k.publish(k.frozen, k.store, k.at)
	return k.frozen
}

// recorded drops the frozen rows: the store has them at version at, and the manifest says so. The next
// freeze comes after it.
func (k *keyedRows) recorded(at uint64) {
	k.frozen, k.at = nil, at
	k.publish(nil, k.store, at)
}
