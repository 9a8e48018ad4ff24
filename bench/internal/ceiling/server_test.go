package ceiling

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func listen(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func client(t *testing.T, s *Server, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(s.Addr()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func create(t *testing.T, cl *kgo.Client, topic string, partitions int32) int16 {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, 1
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(context.Background(), cl)
	if err != nil || len(resp.Topics) != 1 {
		t.Fatalf("%v %+v", err, resp)
	}
	return resp.Topics[0].ErrorCode
}

// TestFetch reads what was produced before and while a consumer waits, with a session and without, from the start the client
// asks for.
func TestFetch(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []kgo.Opt
	}{{"session", nil}, {"no session", []kgo.Opt{kgo.DisableFetchSessions()}}} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			s := listen(t, Options{})
			producer := client(t, s, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			if code := create(t, producer, "t", 3); code != 0 {
				t.Fatal(code)
			}
			consumer := client(t, s, append(c.opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
				"t": {0: kgo.NewOffset().AtStart(), 1: kgo.NewOffset().At(0), 2: kgo.NewOffset().At(0)}}))...)
			for round := range 5 {
				for p := range int32(3) {
					rec := &kgo.Record{Topic: "t", Partition: p, Value: fmt.Appendf(nil, "%d of %d", round, p)}
					if err := producer.ProduceSync(ctx, rec).FirstErr(); err != nil || rec.Offset != int64(round) {
						t.Fatalf("%v, offset %d", err, rec.Offset)
					}
				}
				for got := 0; got < 3; {
					f := consumer.PollFetches(ctx)
					if err := f.Err(); err != nil {
						t.Fatal(err)
					}
					f.EachRecord(func(r *kgo.Record) {
						if got++; r.Offset != int64(round) || string(r.Value) != fmt.Sprintf("%d of %d", round, r.Partition) {
							t.Errorf("partition %d, offset %d: %q", r.Partition, r.Offset, r.Value)
						}
					})
				}
			}
		})
	}
}

// TestKept looks at what a bound on the kept bytes leaves: the newest batches, and their first offset.
func TestKept(t *testing.T) {
	var st store
	st.init(250)
	if !st.create("t", 2) || st.create("t", 2) {
		t.Fatal("a topic is created once")
	}
	p := st.at("t", 1)
	for i := range 5 {
		data := make([]byte, 100)
		binary.BigEndian.PutUint32(data[batchLastDeltaAt:], 9)
		if base, code := st.append(p, data); base != int64(i*10) || code != 0 {
			t.Fatalf("batch %d has offset %d and code %d", i, base, code)
		}
	}
	if p.first() != 30 || p.next != 50 || st.kept != 200 || len(st.order) != 2 {
		t.Errorf("%d to %d, %d bytes of %d batches", p.first(), p.next, st.kept, len(st.order))
	}
	if got := p.read(nil, 45, 1); len(got) != 100 || binary.BigEndian.Uint64(got) != 40 {
		t.Errorf("%d bytes", len(got))
	}
	if _, code := st.append(p, make([]byte, 60)); code != errCorruptMessage {
		t.Errorf("less than a header has code %d", code)
	}
}

// TestNotUnderstood closes the connection of whoever sends no request; a version of ApiVersions that is not known is answered
// with those that are.
func TestNotUnderstood(t *testing.T) {
	s := listen(t, Options{})
	for _, body := range [][]byte{nil, {0, 1}, {0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff}, {0, 77, 0, 0, 0, 0, 0, 1, 0xff, 0xff},
		{0, 0, 0, 99, 0, 0, 0, 1, 0xff, 0xff}, {0, 0, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0x7f}} {
		if out, ok := s.answer(nil, body); ok {
			t.Errorf("%x is answered with %x", body, out)
		}
	}
	out, ok := s.answer(nil, []byte{0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff})
	resp := kmsg.NewApiVersionsResponse()
	if !ok || len(out) < 8 || resp.ReadFrom(out[8:]) != nil || resp.ErrorCode != errUnsupportedVersion || len(resp.ApiKeys) != len(versions) {
		t.Errorf("%x", out)
	}
	if cl := client(t, s); create(t, cl, "t", 0) != errInvalidPartitions || create(t, cl, "t", 1) != 0 || create(t, cl, "t", 1) != errTopicExists {
		t.Error("topics of no partitions and topics that exist are refused")
	}
}
