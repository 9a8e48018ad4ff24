package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/tools/cli"
)

// spoken is a bridge at work with a client's ends of its streams.
type spoken struct {
	t    *testing.T
	in   io.WriteCloser
	out  *bufio.Scanner
	done chan error
}

func speak(t *testing.T, url string) *spoken {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := &spoken{t: t, in: inW, out: bufio.NewScanner(outR), done: make(chan error, 1)}
	go func() {
		err := bridge(t.Context(), &endpoint{url: url}, cli.Streams{In: inR, Out: outW, Err: io.Discard})
		outW.Close()
		s.done <- err
	}()
	return s
}

func (s *spoken) say(format string, args ...any) {
	s.t.Helper()
	_, err := fmt.Fprintf(s.in, format+"\n", args...)
	require.NoError(s.t, err)
}

// answer reads the next line that the bridge says, which must be JSON-RPC and nothing else.
func (s *spoken) answer() (m struct {
	ID     any
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}) {
	s.t.Helper()
	require.True(s.t, s.out.Scan(), "nothing more is said")
	require.NoError(s.t, json.Unmarshal(s.out.Bytes(), &m), s.out.Text())
	return m
}

const hello = `{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
	`"clientInfo":{"name":"x","version":"1"}}}`

// TestBridge: requests get their answers under their own ids, one that waits holds up no other one and can be cancelled, and
// the end of the input ends the bridge.
func TestBridge(t *testing.T) {
	n := startNode(t, "")
	s := speak(t, n.URL)
	s.say(hello)
	first := s.answer()
	require.Equal(t, "first", first.ID)
	require.Contains(t, string(first.Result), `"protocolVersion":"2025-11-25"`)
	s.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	s.say(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"wait","arguments":{},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	<-n.entered
	s.say(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"echo","arguments":{"why":"because"}}}`)
	second := s.answer()
	require.EqualValues(t, 8, second.ID)
	require.Contains(t, string(second.Result), "because")
	s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	<-n.cancelled // the node hears of it
	s.say(`{"jsonrpc":"2.0","id":9,"method":"no/such"}`)
	third := s.answer()
	require.EqualValues(t, 9, third.ID, "a cancelled request has no answer")
	require.NotNil(t, third.Error)
	require.NoError(t, s.in.Close())
	require.False(t, s.out.Scan())
	require.NoError(t, <-s.done)
}

// TestBridgeWithoutNode: a node that is not there is an error of each request; input that is no JSON-RPC ends the bridge as
// wrong use.
func TestBridgeWithoutNode(t *testing.T) {
	n := startNode(t, "")
	n.Close()
	s := speak(t, n.URL)
	for id := range 3 {
		s.say(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id)
		m := s.answer()
		require.EqualValues(t, id, m.ID)
		require.Equal(t, codeUnreachable, m.Error.Code)
		require.Contains(t, m.Error.Message, "no answer from")
	}
	s.say(`this is no JSON`)
	require.Equal(t, cli.Usage, cli.Code(<-s.done))
}
