package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerWithin is how long an answer may take before it counts as none.
const answerWithin = 5 * time.Second

// side is one of the two that are compared.
type side struct {
	addr string
	// served are the versions of each key.
	served map[int16][2]int16
	// id is that of the topic that is there.
	id [16]byte
	// tired are steps of plays for which patience has ended once.
	tired map[string]bool
}

// Errors of a side that answers nothing, which are outcomes to compare.
var (
	errClosed = errors.New("closed the connection")
	errSilent = errors.New("did not answer")
)

// ask sends one request on a connection of its own and reads its answer.
func (s *side) ask(req kmsg.Request) (kmsg.Response, error) {
	nc, err := net.DialTimeout("tcp", s.addr, answerWithin)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(answerWithin))
	if _, err := nc.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("compare")).AppendRequest(nil, req, 7)); err != nil {
		return nil, errClosed
	}
	var size [4]byte
	if _, err := io.ReadFull(nc, size[:]); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, errSilent
		}
		return nil, errClosed
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(nc, b); err != nil {
		return nil, errClosed
	}
	rd := kbin.Reader{Src: b}
	resp := req.ResponseKind()
	if got := rd.Int32(); got != 7 {
		return nil, fmt.Errorf("answered another request: %d", got)
	}
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		kmsg.SkipTags(&rd)
	}
	if err := resp.ReadFrom(rd.Src); err != nil {
		return nil, fmt.Errorf("sent what does not decode: %w", err)
	}
	return resp, nil
}

// learn asks what is served.
func (s *side) learn() error {
	req := kmsg.NewPtrApiVersionsRequest()
	resp, err := s.ask(req)
	if err != nil {
		return fmt.Errorf("%s %w", s.addr, err)
	}
	s.served = map[int16][2]int16{}
	for _, k := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
		s.served[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	return nil
}
