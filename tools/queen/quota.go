package main

import (
	"fmt"
	"log/slog"
	"time"

	"queen/engine/auth"
	"queen/engine/auth/live"
	"queen/tools/config"
)

// plans are the plans of tenants: fixed ones, or a file that is followed.
type plans struct {
	file   *live.Value[*auth.Plans]
	quotas *auth.Quotas
}

// openPlans reads the plans; without any there is nothing that bounds tenants.
func openPlans(c *config.Config, log *slog.Logger) (*plans, error) {
	p := &plans{}
	switch {
	case c.QuotaFile != "":
		file, err := live.Open(live.Options[*auth.Plans]{Paths: []string{c.QuotaFile}, Now: time.Now,
			Changed: told(log, "quota.file"),
			Make: func(contents [][]byte) (*auth.Plans, error) {
				made, err := auth.ParsePlans(contents[0], c.QuotaPlan)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", c.QuotaFile, err)
				}
				return made, nil
			}})
		if err != nil {
			return nil, fmt.Errorf("quota.file: %w", err)
		}
		p.file, p.quotas = file, auth.NewQuotas(file.Get, time.Now)
	case c.QuotaPlan != "":
		fixed, err := auth.ParsePlans(nil, c.QuotaPlan)
		if err != nil {
			return nil, fmt.Errorf("quota.plan: %w", err)
		}
		p.quotas = auth.NewQuotas(func() *auth.Plans { return fixed }, time.Now)
	}
	return p, nil
}
