package replication

import (
	"context"
	"fmt"
	"testing"

	"queen/engine"
	"queen/engine/format"
)

// TestOtherNodesSeeWhatWasTold: what a client was told by one node, any other one knows as soon as it is asked: the topic, that
// it is listed, where its partition ends, and an offset behind what the node asked has applied.
func TestOtherNodesSeeWhatWasTold(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	leader, ctx, who := c.leader(), context.Background(), engine.Caller{Tenant: format.DefaultTenant}
	other := c.nodes[leader%3+1]
	for i := range 60 {
		queue := fmt.Sprint("q", i)
		if _, err := push(ctx, c.nodes[leader], queue, "0", "", "x"); err != nil {
			t.Fatal(err)
		}
		switch i % 4 {
		case 0:
			info, err := other.Catalog().Topic(ctx, who, queue)
			if err != nil || info.Name != queue {
				t.Errorf("%s: topic %+v, %v", queue, info, err)
			}
		case 1:
			rows, _, err := other.Catalog().Topics(ctx, who, engine.Page{Limit: 1000})
			if err != nil || len(rows) != i+1 {
				t.Errorf("%s: %d topics of %d, %v", queue, len(rows), i+1, err)
			}
		case 2:
			at, err := other.Records().RecordOffsets(ctx, who, []engine.RecordOffsetQuery{{Queue: queue, Partition: "0", Kind: engine.RecordLatest}})
			if err != nil || at[0].Err != nil || at[0].Offset != 1 {
				t.Errorf("%s: offsets %+v, %v", queue, at, err)
			}
		case 3:
			for n := format.Offset(1); n < 5; n++ {
				got, err := other.Records().Fetch(ctx, who, []engine.FetchAt{{Queue: queue, Partition: "0", Offset: n}}, 0)
				if err != nil || got[0].Err != nil || got[0].End != n {
					t.Errorf("%s: fetched at %d: %+v, %v", queue, n, got, err)
				}
				if _, err := push(ctx, c.nodes[leader], queue, "0", "", "x"); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if _, err := other.Catalog().Topic(ctx, who, "nowhere"); err == nil {
		t.Error("a topic that is nowhere was found")
	}
	got, err := other.Records().Fetch(ctx, who, []engine.FetchAt{{Queue: "q0", Partition: "0", Offset: 9}, {Queue: "nowhere", Partition: "0"}}, 0)
	if err != nil || got[0].Err == nil || got[1].Err == nil || got[1].Err.Code != engine.CodeUnknownQueue {
		t.Errorf("%+v, %v", got, err)
	}
}
