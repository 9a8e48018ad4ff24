package ephemeral

import "time"

// bucket is a token bucket: how many messages a tenant may push now. The zero value is full.
type bucket struct {
	// debt is how many tokens were missing from a full bucket at the time at.
	debt float64
	at   int64
	rate float64
}

// wait is how long n messages have to wait; 0 means not at all. More than a burst passes when the bucket is full, and
// leaves it in debt, so that no batch is refused for ever.
func (b *bucket) wait(n, rate, burst float64, now int64) time.Duration {
	debt := b.now(rate, now)
	over := debt + min(n, burst) - burst
	if over <= 0 {
		return 0
	}
	return time.Duration(over / rate * float64(time.Second))
}

// take charges n messages.
func (b *bucket) take(n, rate float64, now int64) {
	b.debt, b.at, b.rate = b.now(rate, now)+n, now, rate
}

func (b *bucket) now(rate float64, now int64) float64 {
	return max(0, b.debt-rate*float64(now-b.at)/1e6)
}

// fullAt is when nothing of what was taken is left to see.
func (b *bucket) fullAt() int64 {
	if b.debt == 0 || b.rate <= 0 {
		return 0
	}
	return b.at + int64(b.debt/b.rate*1e6) + 1
}
