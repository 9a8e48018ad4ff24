package frontendkafka

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Goal: every client finds out what is served, those of the future too.
func TestApiVersions(t *testing.T) {
	n := start(t, nil)
	c := n.dial()
	for v := range int16(5) {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = v, "some-client", "1.2.3"
		resp := c.ask(req).(*kmsg.ApiVersionsResponse)
		require.Zero(t, resp.ErrorCode)
		require.Len(t, resp.ApiKeys, len(n.f.table))
		for _, f := range resp.SupportedFeatures {
			require.False(t, v == 3 && f.MinVersion == 0, f.Name)
		}
		if v >= 3 {
			require.NotEmpty(t, resp.FinalizedFeatures)
		}
	}

	// Version 99 is answered in version 0, with the window of the key itself, and the connection stays.
	c.frame(binary.BigEndian.AppendUint16([]byte{0, 18, 0, 99, 0, 0, 0, 77, 0xff, 0xff, 0}, 1))
	correlation, body, err := c.body(false)
	require.NoError(t, err)
	require.EqualValues(t, 77, correlation)
	resp := kmsg.NewPtrApiVersionsResponse()
	require.NoError(t, resp.ReadFrom(body))
	require.Equal(t, kerr.UnsupportedVersion.Code, resp.ErrorCode)
	require.Equal(t, []kmsg.ApiVersionsResponseApiKey{{ApiKey: 18, MinVersion: 0, MaxVersion: 4}}, resp.ApiKeys)
	c.ask(kmsg.NewPtrApiVersionsRequest())

	for _, bad := range []string{"", "-x", "a b", "x\n"} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, bad, "1"
		require.Equal(t, kerr.InvalidRequest.Code, c.ask(req).(*kmsg.ApiVersionsResponse).ErrorCode, "%q", bad)
	}
}
