package frontendmcp

import (
	"queen/engine"
)

// sight is what the tools that explain a backlog look at.
type sight struct {
	rows   []lagRow
	leases []engine.LeaseRow
}

// look gathers what is behind and what is leased, of one queue or all, of one consumer group or all.
func (c *call) look(queue, group string) (*sight, error) {
	if queue != "" {
		if _, err := c.engine.Catalog().Queue(c.ctx, c.caller, queue); err != nil {
			return nil, err
		}
	}
	s := &sight{rows: []lagRow{}}
	behind, err := c.engine.Inspect().TopLag(c.ctx, c.caller, queue, maxScan)
	if err != nil {
		return nil, err
	}
	leases, err := c.engine.Inspect().Leases(c.ctx, c.caller, maxScan)
	if err != nil {
		return nil, err
	}
	for _, l := range leases {
		if (queue == "" || l.Queue == queue) && (group == "" || l.Group == group) {
			s.leases = append(s.leases, l)
		}
	}
	for i := range behind {
		if group == "" || behind[i].Group == group {
			s.rows = append(s.rows, c.lagRowOf(&behind[i], ""))
		}
	}
	return s, nil
}
