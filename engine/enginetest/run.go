package enginetest

import (
	"context"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
)

// Options adapt the suite to an engine.
type Options struct {
	// Settle, when set, returns once everything that was due by the clock has been applied: leases that
	// ran out, delays that ended, retention. It is called after each move of the clock.
	Settle func(engine.Engine)
	// Skip names rules this engine does not claim to follow, each with the reason.
	Skip map[string]string
	// Tenant is the caller of most rules; the zero one stands for format.DefaultTenant.
	Tenant format.Tenant
}

func (o *Options) tenant() format.Tenant {
	if o.Tenant.IsZero() {
		return format.DefaultTenant
	}
	return o.Tenant
}

// rule is one statement and how it is seen through the interface.
type rule struct {
	name string // S-ack-5
	what string
	test func(*rig)
}

// Run runs one subtest per rule against engines made by open. Each gets an engine and a clock of its
// own; the engine must be empty, follow that clock, and close with the test.
func Run(t *testing.T, open func(t *testing.T, c *clock.Fake) engine.Engine, o Options) {
	for _, ru := range allRules() {
		t.Run(ru.name+" "+ru.what, func(t *testing.T) {
			if why := o.Skip[ru.name]; why != "" {
				t.Skip(why)
			}
			fake := clock.NewFake(epoch)
			ru.run(t, open(t, fake), fake, &o, guard)
		})
	}
}

// run carries the rule out on an engine and closes it. No call takes longer than limit in real time.
func (ru *rule) run(t tester, e engine.Engine, c *clock.Fake, o *Options, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ru.test(&rig{t: t, e: e, clock: c, o: o, ctx: ctx, caller: engine.Caller{Tenant: o.tenant()}})
	if err := e.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func allRules() (all []rule) {
	for _, part := range [][]rule{idRules, configRules, pushRules, dedupRules, popRules, conflateRules, leaseRules, waitRules,
		groupRules, ackRules, deadRules, repeatRules, fetchRules, retainRules, adminRules, clockRules, kvRules, txnRules, lockRules, timerRules} {
		all = append(all, part...)
	}
	return all
}

// NotCovered names the statements of the sections this suite is about (1 to 13, 17, 21 to 23) that
// can not be seen through engine.Engine by one caller, each with who has to test it.
var NotCovered = map[string]string{
	"S-id-3":    "the frontends fill in the name",
	"S-id-9":    "the default tenant of requests without one is the frontends' rule",
	"S-id-16":   "ephemeral queues are no part of the log: the tests of engine/ephemeral",
	"S-id-18":   "scale: bench",
	"S-push-13": "the body limit is the frontends'; 96 MiB in one call is a test of the node",
	"S-push-15": "durability: crash tests",
	"S-push-17": "deadlines are the frontends'",
	"S-push-18": "leader change: replication",
	"S-push-19": "client library",
	"S-dup-7":   "fail-over: replication; restart: crash tests",
	"S-dup-9":   "memory bound, not a verdict",
	"S-dup-10":  "keys are the node's: a test of it",
	"S-dup-11":  "Kafka frontend",
	"S-pop-11":  "deadline margins are the node's, with a real context",
	"S-pop-13":  "status codes are the frontends'",
	"S-pop-14":  "durability: crash tests",
	"S-lease-6": "leader change: replication; restart: random tests with reopen",
	"S-amo-3":   "client library",
	"S-ack-19":  "client library",
	"S-ack-24":  "deadlines and leader change: frontends and replication",
	"S-ack-25":  "durability: crash tests",
	"S-dlq-18":  "leader change: replication",
	"S-dlq-19":  "a fire that is refused is put off, never filed: S-tmr-17",
	"S-fetch-6": "followers: replication",
	"S-fetch-9": "frontends",
	"S-ret-5":   "pace of the sweep: node",
	"S-ret-9":   "traces are rows of KV, whose lifetime the frontends set: a test of theirs",
	"S-ret-12":  "memory against disk: node",
	"S-grp-5":   "a filter of the frontends over Groups",
	"S-grp-7":   "authorization: frontends",
	"S-grp-8":   "metrics: frontends",
	"S-bp-1":    "admission: node",
	"S-bp-2":    "admission: node",
	"S-bp-3":    "overload: node and bench",
	"S-bp-4":    "full disk: node",
	"S-bp-5":    "forwarding: replication",
	"S-bp-6":    "client library",
	"S-bp-7":    "overload: bench",
	"S-bp-8":    "memory: bench",
	"S-clk-1":   "followers: replication",
	"S-clk-3":   "leader change: replication",
	"S-ack-17":  "a missing status is the frontends' rule",
	"S-clk-4":   "a property of the interface: no call carries a client's clock",
	"S-sub-8":   "a setting of the node",
	"S-obs-3":   "defaults and rounding are the frontends'; order is tested as S-obs-1",
	"S-ret-10":  "30 days of idleness: node",
	"S-clk-5":   "a promise that is not made",
	"S-txn-2":   "shapes of bodies: frontends; an empty batch is tested as S-txn-24",
	"S-txn-3":   "shapes of answers: frontends",
	"S-txn-6":   "leases lent between acks: frontends",
	"S-txn-20":  "nothing is reserved: a transaction is judged where it stands in the log",
	"S-txn-23":  "a property of the interface",
	"S-txn-25":  "Kafka frontend",
	"S-kv-12":   "the frontends' rule: Keep says for ever or how long",
	"S-kv-20":   "rates: frontends",
	"S-kv-21":   "quotas: frontends; the disk gate is a test of the node",
	"S-lock-8":  "client library; tested as S-txn-19",
	"S-lock-13": "client library",
	"S-lock-14": "leader change: replication",
	"S-tmr-7":   "crash tests of the node; once is seen in S-tmr-5 and S-tmr-8",
	"S-tmr-12":  "encoding of payloads and server-owned fields: frontends",
	"S-tmr-16":  "quotas: frontends; the disk gate is a test of the node",
	"S-tmr-19":  "switches: frontends",
	"S-tmr-20":  "crash tests of the node; fail-over: replication",
}
