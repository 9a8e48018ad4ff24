package frontendkafka

import (
	"sync"
	"time"

	"queen/engine/auth"
	"queen/engine/format"
)

// throttleMax bounds how long one answer holds a client back.
const throttleMax = 30 * time.Second

// bucketsMax bounds the buckets that are kept; what is above it is not held to its quota.
const bucketsMax = 100_000

// quotas hold clients to the rates that were set by AlterClientQuotas. They hold per node and per matched entity: the
// clients of a user share what the user has.
type quotas struct {
	mu sync.Mutex
	// generation of the administrative rows that tenants were read from.
	generation uint64
	tenants    map[format.Tenant]map[string]quotaRow // by the entity's row
	buckets    map[bucketKey]*byteBucket
}

type bucketKey struct {
	tenant format.Tenant
	key    string
	entity string // as it matched, default parts by the client's own names
}

// byteBucket may go into debt: what was sent was sent, and the client waits until it is paid.
type byteBucket struct {
	left float64
	at   int64
}

// charge takes n bytes from the client's quota and tells how long it must wait.
func (q *quotas) charge(f *Frontend, who format.Tenant, key, user, client string, n int) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	rows := q.rowsLocked(f, who)
	if len(rows) == 0 {
		return 0
	}
	rate, matched := match(rows, key, user, client)
	if rate <= 0 {
		return 0
	}
	at := bucketKey{who, key, matched}
	now := f.opts.Clock.Mono()
	b := q.buckets[at]
	if b == nil {
		if len(q.buckets) >= bucketsMax && !q.dropLocked(now) {
			return 0
		}
		b = &byteBucket{left: rate, at: now}
		q.buckets[at] = b
	}
	b.left = min(b.left+float64(max(now-b.at, 0))*rate/1e6, rate) - float64(n)
	b.at = now
	if b.left >= 0 {
		return 0
	}
	return min(time.Duration(-b.left/rate*float64(time.Second)), throttleMax)
}

// dropLocked lets go of buckets that are full again by now; false when all are in use.
func (q *quotas) dropLocked(now int64) bool {
	for k, b := range q.buckets {
		if now-b.at > 2*throttleMax.Microseconds() {
			delete(q.buckets, k)
		}
	}
	return len(q.buckets) < bucketsMax
}

// rowsLocked are the quotas of a tenant.
func (q *quotas) rowsLocked(f *Frontend, who format.Tenant) map[string]quotaRow {
	if g := f.rows.AdminGeneration(); q.tenants == nil || q.generation != g {
		q.generation, q.tenants = g, map[format.Tenant]map[string]quotaRow{}
		if q.buckets == nil {
			q.buckets = map[bucketKey]*byteBucket{}
		}
	}
	rows, ok := q.tenants[who]
	if ok {
		return rows
	}
	rows = map[string]quotaRow{}
	for after := ""; ; {
		page := f.rows.AdminRows(who, format.AdminKafkaQuota, after, 256)
		for _, row := range page {
			after = row.Name
			if r, err := decodeQuota(row.Value); err == nil {
				rows[row.Name] = r
			}
		}
		if len(page) == 0 {
			break
		}
	}
	q.tenants[who] = rows
	return rows
}

// match finds the quota that counts for a client: the most exact one that has the key.
func match(rows map[string]quotaRow, key, user, client string) (rate float64, matched string) {
	u, c := quotaName{kind: quotaUser, name: user}, quotaName{kind: quotaClient, name: client}
	anyUser, anyClient := quotaName{kind: quotaUser, rest: true}, quotaName{kind: quotaClient, rest: true}
	for _, try := range []struct{ named, shares entity }{
		{entity{u, c}, entity{u, c}}, {entity{u, anyClient}, entity{u, c}}, {entity{u}, entity{u}},
		{entity{anyUser, c}, entity{u, c}}, {entity{anyUser, anyClient}, entity{u, c}}, {entity{anyUser}, entity{u}},
		{entity{c}, entity{c}}, {entity{anyClient}, entity{c}},
	} {
		if r, ok := rows[try.named.row()]; ok {
			if rate, ok := r.Set[key]; ok {
				return rate, try.shares.row()
			}
		}
	}
	return 0, ""
}

// anonymous is the user of clients that nobody asked who they are.
const anonymous = "ANONYMOUS"

// charge holds the client to its quota of bytes: it waits before its next request is looked at.
func (c *conn) charge(r *request, key string, n int) time.Duration {
	who := c.caller()
	if who.Subject == "" {
		who.Subject = anonymous
	}
	d := c.f.quotas.charge(c.f, who.Tenant, key, who.Subject, r.client, n)
	c.throttled = max(c.throttled, d)
	return d
}

// countCall counts a call against the tenant's plan. One over it is answered and the next one waits.
func (c *conn) countCall() {
	if ok, after := c.f.opts.Quotas.Take(auth.Tenant(c.caller().Tenant), auth.Requests, 1); !ok {
		c.throttled = max(c.throttled, min(after, throttleMax))
	}
}
