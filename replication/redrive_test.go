package replication

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"queen/engine"
	"queen/engine/format"
)

// fileDead makes dead letters of so many messages of one partition, in order.
func (c *testCluster) fileDead(on format.Replica, letters int) {
	c.t.Helper()
	ctx, n, who := context.Background(), c.nodes[on], engine.Caller{Tenant: format.DefaultTenant}
	for i := range letters {
		_, err := push(ctx, n, "q", "p", "", fmt.Sprint(i))
		must(c.t, err)
		d, err := n.Pop(ctx, who, engine.PopRequest{Scope: engine.Scope{Queue: "q", Partition: "p", Pinned: true}, Group: "g", Batch: 1,
			Start: engine.Start{Kind: format.StartAll}})
		must(c.t, err)
		if d == nil || len(d.Claims) != 1 {
			c.t.Fatalf("message %d: nothing to pop", i)
		}
		at, lease := d.Claims[0], d.Lease
		d.Delivered()
		res, err := n.Do(ctx, who, engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: at.PartitionID, Group: "g", Lease: lease, HasOffset: true,
			Offset: at.First, Status: format.AckDLQ, Reason: "bad"}}})
		must(c.t, err)
		if res[0].Err != nil {
			c.t.Fatal(res[0].Err)
		}
	}
}

// TestRedriveGoesOn: who leads runs a job that moves dead letters, whichever node was asked, so it goes on when that one ends and when
// the lead moves. Every dead letter is moved once, in order.
func TestRedriveGoesOn(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	ctx, who := context.Background(), engine.Caller{Tenant: format.DefaultTenant}
	leader := c.leader()
	const letters = 20
	c.fileDead(leader, letters)
	asked, other := leader%3+1, (leader+1)%3+1
	job, err := c.nodes[asked].StartRedrive(ctx, who, engine.RedriveRequest{Queue: "q", PerSecond: 10})
	must(t, err)
	c.stop(asked)
	moved := func() int { return len(readAll(t, c.nodes[other], "q", "p")) - letters }
	c.until("a dead letter is moved", func() bool { return moved() > 0 })
	c.lead(other)
	done := func(node format.Replica) bool {
		j, err := c.nodes[node].RedriveJob(ctx, who, job.ID)
		return err == nil && j.State == engine.RedriveDone
	}
	c.until("the job ends", func() bool { return done(other) })
	c.until("the other node knows it", func() bool { return done(leader) })
	var want []string
	for range 2 {
		for i := range letters {
			want = append(want, fmt.Sprint(i))
		}
	}
	if got := readAll(t, c.nodes[other], "q", "p"); !slices.Equal(got, want) {
		t.Errorf("the partition holds %v", got)
	}
}
