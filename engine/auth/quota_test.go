package auth

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const someTenant = "11111111-1111-1111-1111-111111111111"

func quotas(t testing.TB, clock *manual, text, otherwise string) *Quotas {
	t.Helper()
	plans, err := ParsePlans([]byte(text), otherwise)
	require.NoError(t, err)
	return NewQuotas(func() *Plans { return plans }, clock.Now)
}

// TestTake: a burst passes at once, the rate after it; what is refused takes nothing and tells exactly when it passes.
func TestTake(t *testing.T) {
	clock := newManual()
	q := quotas(t, clock, "plans: {p: {requests_per_second: 10, requests_burst: 20}}", "p")
	one := func() bool { ok, _ := q.Take(DefaultTenant, Requests, 1); return ok }
	for range 20 {
		require.True(t, one())
	}
	for range 100 {
		ok, after := q.Take(DefaultTenant, Requests, 1)
		require.False(t, ok)
		require.Equal(t, 100*time.Millisecond, after, "a refused call took something")
	}
	clock.advance(99 * time.Millisecond)
	require.False(t, one())
	clock.advance(time.Millisecond)
	require.True(t, one())
	require.False(t, one())
	clock.advance(time.Hour)
	for range 20 {
		require.True(t, one())
	}
	require.False(t, one(), "more than the burst was saved up")
	clock.advance(-time.Hour)
	require.False(t, one(), "a clock that was set back gave something")
	clock.advance(200 * time.Millisecond)
	require.True(t, one(), "a clock that was set back stops the bucket")
	ok, _ := q.Take(DefaultTenant, Messages, 1_000_000)
	require.True(t, ok, "a rate that the plan does not have bounds something")
}

// TestLargeBatches: more than a full bucket passes when it is full, and is paid for afterwards.
func TestLargeBatches(t *testing.T) {
	clock := newManual()
	q := quotas(t, clock, "plans: {p: {messages_per_second: 100}}", "p")
	ok, _ := q.Take(DefaultTenant, Messages, 1)
	require.True(t, ok)
	ok, after := q.Take(DefaultTenant, Messages, 1000)
	require.False(t, ok)
	require.Equal(t, 10*time.Millisecond, after)
	clock.advance(after)
	ok, _ = q.Take(DefaultTenant, Messages, 1000)
	require.True(t, ok)
	_, after = q.Take(DefaultTenant, Messages, 1)
	require.Equal(t, 9*time.Second+10*time.Millisecond, after)
	q.Give(DefaultTenant, Messages, 1000)
	ok, _ = q.Take(DefaultTenant, Messages, 100)
	require.True(t, ok)
	q.Give(DefaultTenant, Messages, 5000)
	ok, _ = q.Take(DefaultTenant, Messages, 101)
	require.True(t, ok)
	_, after = q.Take(DefaultTenant, Messages, 1)
	require.Equal(t, 20*time.Millisecond, after, "more was given back than fits")
}

// TestPlansOfTenants: each tenant has its own buckets and its own plan; one that is not listed has the other plan, or
// none.
func TestPlansOfTenants(t *testing.T) {
	clock := newManual()
	listed, _ := ParseTenant(someTenant)
	text := "plans: {small: {requests_per_second: 1, queues: 3}}\ntenants: {" + someTenant + ": small}\n"
	q := quotas(t, clock, text, "")
	ok, _ := q.Take(listed, Requests, 1)
	require.True(t, ok)
	ok, _ = q.Take(listed, Requests, 1)
	require.False(t, ok)
	for range 100 {
		ok, _ = q.Take(DefaultTenant, Requests, 1)
		require.True(t, ok)
	}
	require.Equal(t, Plan{}, q.Plan(DefaultTenant))
	require.Equal(t, 3, q.Plan(listed).Queues)
	up := quotas(t, clock, text, UpstreamPlan)
	for b, want := range map[Bucket]int{KVWrites: 200, KVReads: 400, Ephemeral: 10_000} {
		ok, _ := up.Take(DefaultTenant, b, want)
		require.True(t, ok, b)
		ok, _ = up.Take(DefaultTenant, b, 1)
		require.False(t, ok, b)
	}
	var none *Quotas
	ok, _ = none.Take(listed, Requests, 1<<40)
	require.True(t, ok && none.Park(listed))
	none.Unpark(listed)
	none.Give(listed, Requests, 1)
	none.Refused(func(string, uint64) { t.Error("a nil Quotas counts") })
}

// TestParked: waiting pops are counted until they end, whatever happens to the buckets of their tenant.
func TestParked(t *testing.T) {
	clock := newManual()
	q := quotas(t, clock, "plans: {p: {parked_pops: 2, requests_per_second: 1}}", "p")
	require.True(t, q.Park(DefaultTenant))
	require.True(t, q.Park(DefaultTenant))
	require.False(t, q.Park(DefaultTenant))
	for i := range uint64(2 * tracked) {
		var other Tenant
		binary.LittleEndian.PutUint64(other[:], i+1)
		q.Take(other, Requests, 1)
		require.LessOrEqual(t, len(q.mu.tenants), tracked)
	}
	require.Equal(t, q.mu.recent.Len(), len(q.mu.tenants))
	require.False(t, q.Park(DefaultTenant))
	q.Unpark(DefaultTenant)
	require.True(t, q.Park(DefaultTenant))
	q.Unpark(DefaultTenant)
	q.Unpark(DefaultTenant)
	require.Empty(t, q.mu.parked)
}

// TestShadow counts and refuses nothing but sizes.
func TestShadow(t *testing.T) {
	clock := newManual()
	q := quotas(t, clock, "plans: {p: {requests_per_second: 1, parked_pops: 1, shadow: true}}", "p")
	for range 5 {
		ok, _ := q.Take(DefaultTenant, Requests, 1)
		require.True(t, ok)
		require.True(t, q.Park(DefaultTenant))
	}
	plan := q.Plan(DefaultTenant)
	require.False(t, q.Exceeds(&plan, BoundQueues))
	require.True(t, q.Exceeds(&plan, BoundPayload))
	got := map[string]uint64{}
	q.Refused(func(name string, n uint64) { got[name] = n })
	require.EqualValues(t, map[string]uint64{"requests": 4, "messages": 0, "kv_write": 0, "kv_read": 0, "ephemeral": 0,
		"queues": 1, "partitions_per_queue": 0, "parked_pops": 4, "payload_bytes": 1, "batch_items": 0}, got)
}

// TestPlanFile: what is wrong is named.
func TestPlanFile(t *testing.T) {
	for want, text := range map[string]string{
		"field request_per_second not found":      "plans: {p: {request_per_second: 1}}",
		"plan p: messages: a burst does nothing":  "plans: {p: {messages_burst: 1}}",
		"plan p: requests: a rate and its burst":  "plans: {p: {requests_per_second: -1}}",
		"plan p: kv_read: a rate and its burst":   "plans: {p: {kv_reads_per_second: .nan}}",
		"plan p: ephemeral: a rate and its burst": "plans: {p: {ephemeral_messages_per_second: .inf}}",
		"plan p: a bound is negative":             "plans: {p: {queues: -1}}",
		"plan upstream: the name is that of":      "plans: {upstream: {queues: 1}}",
		`tenant "acme": want a UUID`:              "tenants: {acme: upstream}",
		`there is no plan "big"`:                  "tenants: {" + someTenant + ": big}",
		"yaml":                                    "plans: [",
	} {
		_, err := ParsePlans([]byte(text), "")
		require.ErrorContains(t, err, want)
	}
	_, err := ParsePlans(nil, "big")
	require.ErrorContains(t, err, `there is no plan "big"`)
}
