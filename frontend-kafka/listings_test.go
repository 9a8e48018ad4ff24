package frontendkafka

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Goal: answers that list very many partitions share a bound, which a setting names; who finds no room is told to ask again,
// and little answers need none.
func TestListingsAreBounded(t *testing.T) {
	const wide = 5000
	n := start(t, func(o *Options) { o.Memory = 1 << 20 })
	n.topic("little", 4)
	n.topic("wide", wide)
	n.f.listingWait = 1
	whole := func() {
		t.Helper()
		require.Eventually(t, func() bool {
			all, ok := n.f.listings.try(n.f.listings.size)
			all.give()
			return ok
		}, patience, pollEvery)
	}
	c := n.dial()
	for _, names := range [][]string{{"wide"}, {"wide", "little"}, nil} {
		for v := range int16(14) {
			got := topicsOf(c, v, false, names...)
			require.Len(t, got, max(1, len(names), 3*(1-len(names))))
			for i := range got {
				require.Zero(t, got[i].ErrorCode)
				require.Len(t, got[i].Partitions, map[string]int{"wide": wide, "little": 4, offsetsTopic: offsetsWidth}[*got[i].Topic])
			}
		}
	}
	whole()

	held, err := n.f.listings.take(context.Background(), n.f.listings.size)
	require.NoError(t, err)
	got := topicsOf(c, 12, false, "wide", "little")
	require.Equal(t, kerr.LeaderNotAvailable.Code, got[0].ErrorCode)
	require.Empty(t, got[0].Partitions)
	require.Len(t, topicsOf(c, 12, false, "little")[0].Partitions, 4)
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	dirs.Version = 4
	require.Equal(t, kerr.NotEnoughReplicas.Code, c.ask(dirs).(*kmsg.DescribeLogDirsResponse).ErrorCode)

	n.f.listingWait = patience
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	c.send(req)
	held.give()
	require.Zero(t, c.receive(req).(*kmsg.MetadataResponse).Topics[1].ErrorCode)
	whole()
}

// Goal: an answer of very many little things asks for room as it grows, may have everything there is and no more, and one
// that grows without end is refused.
func TestListingGrows(t *testing.T) {
	n := start(t, func(o *Options) { o.Memory = 1 << 20 })
	c := &conn{f: n.f}
	list, ctx := listing{c: c}, context.Background()
	for range 3 * n.f.listings.size / 1000 {
		require.NoError(t, list.add(ctx, 1000))
	}
	_, ok := n.f.listings.try(1)
	require.False(t, ok)
	c.wrote()
	all, ok := n.f.listings.try(n.f.listings.size)
	require.True(t, ok)
	all.give()
	require.ErrorIs(t, list.add(ctx, listedMax*partitionRoom), errListing)

	// What a few bytes name each takes kilobytes: groups that nobody knows, topics that are only to be judged.
	held, err := n.f.listings.take(ctx, n.f.listings.size)
	require.NoError(t, err)
	defer held.give()
	n.f.listingWait = 1
	client := n.dial()
	configs, create := kmsg.NewPtrDescribeConfigsRequest(), kmsg.NewPtrCreateTopicsRequest()
	configs.Version, create.Version, create.ValidateOnly = 4, 7, true
	for i := range 1000 {
		configs.Resources = append(configs.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: aGroup, ResourceName: fmt.Sprint(i)})
		one := kmsg.NewCreateTopicsRequestTopic()
		one.Topic, one.NumPartitions, one.ReplicationFactor = fmt.Sprint(i), 1, 1
		create.Topics = append(create.Topics, one)
	}
	require.Equal(t, kerr.NotEnoughReplicas.Code, client.ask(configs).(*kmsg.DescribeConfigsResponse).Resources[0].ErrorCode)
	got := client.ask(create).(*kmsg.CreateTopicsResponse).Topics
	require.Zero(t, got[0].ErrorCode)
	require.Equal(t, kerr.NotEnoughReplicas.Code, got[999].ErrorCode)
}
