package frontendhttp

import (
	"encoding/json"
	"time"

	"queen/engine"
)

// extendDefault is how long an extend that names nothing lasts, in seconds.
const extendDefault = 60

// extend answers POST /api/v1/lease/:leaseId/extend: 200 always, also for a lease that is not there (S-lease-4).
func extend(c *call) error {
	lease, err := c.name(0)
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	op := engine.Extend{Lease: lease, For: extendFor(c.body())}
	res, err := c.engine.Do(ctx, c.caller, engine.Batch{Ops: []engine.Op{&op}})
	if err != nil {
		return err
	}
	item := res[0].Extend
	live := res[0].Err == nil && item.Renewed > 0
	o := out{c.buffer()}
	o.open('{')
	o.str("leaseId", lease)
	o.bool("success", live)
	o.count("renewed", uint64(item.Renewed))
	for _, key := range []string{"newExpiresAt", "expiresAt", "lease_expires_at"} {
		if live {
			o.time(key, item.Expires)
		} else {
			o.null(key)
		}
	}
	o.close('}')
	c.send(200, o.b)
	return nil
}

// extendFor reads "seconds"; whatever is not a body with such a number means the default, never an error.
func extendFor(body []byte) time.Duration {
	var in struct{ Seconds *int64 }
	if json.Unmarshal(body, &in) != nil || in.Seconds == nil {
		return extendDefault * time.Second
	}
	return time.Duration(min(max(*in.Seconds, 1), maxLease)) * time.Second
}
