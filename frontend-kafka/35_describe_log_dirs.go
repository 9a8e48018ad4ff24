package frontendkafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
)

// DescribeLogDirs, 1 to 5: bytes that partitions store, in the one directory of this node. v4 tells the disk's size.
func describeLogDirsAPI() *api {
	return &api{key: 35, min: 1, max: 5, level: auth.LevelReadOnly, handle: describeLogDirs,
		refuse: func(r *request, code int16) kmsg.Response {
			resp := r.req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
			resp.ErrorCode = code
			if r.version < 3 { // only a directory has a code
				resp.Dirs = []kmsg.DescribeLogDirsResponseDir{{ErrorCode: code, TotalBytes: -1, UsableBytes: -1}}
			}
			return resp
		}}
}

func describeLogDirs(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeLogDirsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = c.f.opts.Dir
	stats := c.f.engine.Inspect().Stats()
	dir.TotalBytes, dir.UsableBytes = int64(stats.DiskTotal), int64(stats.DiskFree)
	who := c.caller()
	list := listing{c: c}
	add := func(t *topic, want []int32) error {
		if want == nil {
			if err := list.add(ctx, int64(t.width)*partitionRoom); err != nil {
				return err
			}
		}
		row, err := c.sizes(ctx, who, t, want)
		if err == nil && len(row.Partitions) > 0 {
			dir.Topics = append(dir.Topics, row)
		}
		return err
	}
	var err error
	if req.Topics == nil {
		var bad error
		err = c.f.eachTopic(ctx, who, func(t *topic) bool {
			bad = add(t, nil)
			return bad == nil
		})
		err = errors.Join(err, bad)
	}
	req.Topics = once(req.Topics, func(t *kmsg.DescribeLogDirsRequestTopic) string { return t.Topic })
	for i := range req.Topics {
		t, missing := c.f.topic(ctx, who, req.Topics[i].Topic)
		if errors.Is(missing, kerr.UnknownTopicOrPartition) {
			continue // nothing of it is here
		}
		if err == nil && missing == nil {
			missing = add(t, req.Topics[i].Partitions)
		}
		err = errors.Join(err, missing)
	}
	if err != nil {
		return nil, err
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp, nil
}

// sizes are those of the partitions that are wanted, or of all that have ever been written.
func (c *conn) sizes(ctx context.Context, who engine.Caller, t *topic, want []int32) (kmsg.DescribeLogDirsResponseDirTopic, error) {
	row := kmsg.NewDescribeLogDirsResponseDirTopic()
	row.Topic = t.name
	add := func(n int32) error {
		var size engine.PartitionSize
		var err error
		if !t.internal() {
			size, err = c.f.engine.Inspect().PartitionSize(ctx, who, t.name, partitionName(n), 0)
		}
		if err != nil && !errors.Is(err, &engine.Error{Code: engine.CodeUnknownPartition}) {
			return err
		}
		row.Partitions = append(row.Partitions, kmsg.DescribeLogDirsResponseDirTopicPartition{Partition: n, Size: int64(size.Bytes)})
		return nil
	}
	if want == nil {
		for n := range t.width {
			if err := add(n); err != nil {
				return row, err
			}
		}
		return row, nil
	}
	for _, n := range once(want, itself) {
		if t.has(n) {
			if err := add(n); err != nil {
				return row, err
			}
		}
	}
	return row, nil
}
