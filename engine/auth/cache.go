package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// verdicts bounds how many tokens are remembered.
	verdicts = 4096
	// verdictAge bounds how long a verdict is, so that a changed clock or claim check can not stay unseen for long.
	verdictAge = time.Minute
)

// tokenCache remembers tokens that were found good, by their digest, since verifying an RSA signature costs more than a
// push. Only good ones are remembered: the bad ones of a stranger must not drive them out.
type tokenCache struct {
	mu struct {
		sync.RWMutex
		held map[[sha256.Size]byte]verdict
	}
}

type verdict struct {
	principal  *Principal
	generation uint64 // of the key set that judged
	from       time.Time
	until      time.Time
}

func (c *tokenCache) init() { c.mu.held = make(map[[sha256.Size]byte]verdict) }

// get is nil when the token must be judged.
func (c *tokenCache) get(token string, generation uint64, now time.Time) *Principal {
	key := sha256.Sum256([]byte(token))
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok := c.mu.held[key]
	if !ok || v.generation != generation || now.Before(v.from) || !now.Before(v.until) {
		return nil
	}
	return v.principal
}

func (c *tokenCache) put(token string, generation uint64, now, until time.Time, p *Principal) {
	key := sha256.Sum256([]byte(token))
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.held) >= verdicts {
		c.shrinkLocked(now)
	}
	c.mu.held[key] = verdict{principal: p, generation: generation, from: now, until: until}
}

// shrinkLocked drops what has ended and, when that is not half of it, as many others as make it half. The map's order
// is arbitrary, which is as good as any here: a verdict costs one verification.
func (c *tokenCache) shrinkLocked(now time.Time) {
	for key, v := range c.mu.held {
		if !now.Before(v.until) {
			delete(c.mu.held, key)
		}
	}
	for key := range c.mu.held {
		if len(c.mu.held) <= verdicts/2 {
			return
		}
		delete(c.mu.held, key)
	}
}
