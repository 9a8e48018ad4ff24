package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/auth"
)

// TestPlansOfTheReadme: the plan file that the README shows is one.
func TestPlansOfTheReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "```yaml\nplans:")
	require.True(t, ok)
	block, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	plans, err := auth.ParsePlans([]byte("plans:"+block), "")
	require.NoError(t, err)
	tenant, _ := auth.ParseTenant("11111111-1111-1111-1111-111111111111")
	q := auth.NewQuotas(func() *auth.Plans { return plans }, nil)
	require.Equal(t, 20, q.Plan(tenant).ParkedPops)
}
