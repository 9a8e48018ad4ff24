package frontendhttp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/engine/clock"
)

func TestFetch(t *testing.T) {
	n := start(t)
	for i := range 3 {
		n.push1("q", "7", fmt.Sprint("t", i), fmt.Sprintf(`{"n":%d}`, i))
	}
	a := n.post("/api/v1/fetch", `{"entries":[{"queue":"q","partition":7,"offset":1},{"queue":"q","offset":0},`+
		`{"queue":"none","partition":"x","offset":0},{"queue":"q","partition":"7","offset":4},`+
		`{"queue":"q","partition":"7","offset":0,"maxBytes":-1}],"minBytes":null}`).is(200)
	a.equal(`1`, "entries", 0, "records", 0, "offset").equal(`{"n":1}`, "entries", 0, "records", 0, "payload").
		equal(`"t1"`, "entries", 0, "records", 0, "transactionId").equal(`3`, "entries", 0, "highWatermark").
		equal(`0`, "entries", 0, "logStartOffset").equal(`"7"`, "entries", 0, "partition")
	a.equal(`[]`, "entries", 1, "records").equal(`"Default"`, "entries", 1, "partition")
	a.equal(`"UNKNOWN_TOPIC_OR_PARTITION"`, "entries", 2, "error").equal(`[]`, "entries", 2, "records")
	a.equal(`"OFFSET_OUT_OF_RANGE"`, "entries", 3, "error").equal(`3`, "entries", 3, "highWatermark")
	if got := a.len("entries", 4, "records"); got != 1 {
		t.Errorf("%d records within one byte", got)
	}
	n.post("/api/v1/fetch", `{"entries":[]}`).is(200).equal(`[]`, "entries")
	many := strings.Repeat(`{"queue":"q","offset":0},`, 1025)
	for _, body := range []string{``, `{}`, `{"entries":null}`, `{"entries":{}}`, `{"entries":[{"queue":"q"}]}`,
		`{"entries":[{"offset":0}]}`, `{"entries":[{"queue":"q","offset":-1}]}`, `{"entries":[{"queue":"q","offset":1.5}]}`,
		`{"entries":[{"queue":"q","offset":"0"}]}`, `{"entries":[{"queue":"q","partition":{},"offset":0}]}`,
		`{"entries":[{"queue":1,"offset":0}]}`, `{"entries":[` + strings.TrimSuffix(many, ",") + `]}`} {
		a := n.post("/api/v1/fetch", body).is(400)
		if strings.Contains(a.body, `"code"`) || strings.Contains(a.body, "Go ") || a.str("error") == "" {
			t.Errorf("%s: %s", cut(body), a.body)
		}
	}
}

// TestFetchBudget: the whole answer has a ceiling; entries without a turn tell their bounds and can be asked again.
func TestFetchBudget(t *testing.T) {
	n := start(t)
	for i := range 4 {
		for p := range 3 {
			n.push1("q", fmt.Sprint(p), fmt.Sprint("t", i), `"`+strings.Repeat("x", 98)+`"`)
		}
	}
	ask := func(budget, each int) (got []int) {
		t.Helper()
		a := n.post("/api/v1/fetch", fmt.Sprintf(`{"maxBytes":%d,"entries":[{"queue":"q","partition":0,"offset":0,"maxBytes":%d},`+
			`{"queue":"q","partition":1,"offset":0,"maxBytes":%d},{"queue":"q","partition":2,"offset":0,"maxBytes":%d},`+
			`{"queue":"none","offset":0}]}`, budget, each, each, each)).is(200).
			equal(`"UNKNOWN_TOPIC_OR_PARTITION"`, "entries", 3, "error")
		for i := range 3 {
			a.equal(`4`, "entries", i, "highWatermark")
			got = append(got, a.len("entries", i, "records"))
		}
		return got
	}
	for _, c := range []struct {
		budget, each int
		want         string
	}{
		{1 << 20, 1 << 20, "[4 4 4]"}, {600, 1 << 20, "[4 2 0]"}, {600, 200, "[2 2 2]"}, {1, 1, "[1 0 0]"}, {250, 100, "[1 1 1]"},
		{-5, 1 << 20, "[1 0 0]"},
	} {
		if got := ask(c.budget, c.each); fmt.Sprint(got) != c.want {
			t.Errorf("budget %d, %d each: %v want %s", c.budget, c.each, got, c.want)
		}
	}
}

func TestFetchWaits(t *testing.T) {
	n := start(t)
	n.push1("q", "p", "t0", `0`)
	c := n.dial()
	c.send(request("POST", "/api/v1/fetch", `{"entries":[{"queue":"q","partition":"p","offset":1}],"maxWaitMs":30000}`))
	waitFor(t, "the fetch to park", func() bool { return n.f.parked.Load() == 1 })
	n.push1("q", "p", "t1", `1`)
	c.receive().is(200).equal(`1`, "entries", 0, "records", 0, "payload")
	gone := n.dial()
	gone.send(request("POST", "/api/v1/fetch", `{"entries":[{"queue":"q","partition":"p","offset":2}],"maxWaitMs":30000}`))
	waitFor(t, "the fetch to park", func() bool { return n.f.parked.Load() == 1 })
	_ = gone.Close()
	waitFor(t, "the fetch to end", func() bool { return n.f.parked.Load() == 0 })
}

func TestOffsetsByTime(t *testing.T) {
	fake := clock.NewFake(1_700_000_000_000_000)
	n := startWith(t, Options{Clock: fake})
	n.push1("q", "p", "t0", `0`)
	fake.Advance(10 * time.Second)
	n.push1("q", "p", "t1", `1`)
	ask := func(at string) answer {
		t.Helper()
		return n.post("/api/v1/fetch/offsets", `{"entries":[{"queue":"q","partition":"p","timestamp":`+at+`}]}`).is(200)
	}
	ask(`0`).equal(`0`, "entries", 0, "offset").equal(`"2023-11-14T22:13:20.000000Z"`, "entries", 0, "ts")
	ask(`1700000000001`).equal(`1`, "entries", 0, "offset").equal(`2`, "entries", 0, "highWatermark")
	ask(`"2023-11-14T22:13:30Z"`).equal(`1`, "entries", 0, "offset")
	ask(`"2024-01-01T00:00:00Z"`).equal(`null`, "entries", 0, "offset").equal(`null`, "entries", 0, "ts")
	n.post("/api/v1/fetch/offsets", `{"entries":[{"queue":"none","timestamp":0}]}`).is(200).
		equal(`"UNKNOWN_TOPIC_OR_PARTITION"`, "entries", 0, "error")
	for _, at := range []string{`"x"`, `null`, `{}`, `1.5`, `99999999999999999999`, `""`} {
		n.post("/api/v1/fetch/offsets", `{"entries":[{"queue":"q","timestamp":`+at+`}]}`).is(400)
	}
}

// TestChangedPartitions pages in creation order, and asking again from safeTime misses nothing.
func TestChangedPartitions(t *testing.T) {
	fake := clock.NewFake(1_700_000_000_000_000)
	n := startWith(t, Options{Clock: fake})
	for i := range 3 {
		n.push1("q", fmt.Sprint("p", i), "t", `1`)
	}
	fake.Advance(time.Second)
	one := n.post("/api/v1/partitions/changed", `{"entries":[{"queue":"q","limit":2},{"queue":"none"},`+
		`{"queue":"q","after":"nonsense"}]}`).is(200)
	one.equal(`"p0"`, "entries", 0, "partitions", 0, "name").equal(`0`, "entries", 0, "partitions", 0, "lastOffset").
		equal(`0`, "entries", 0, "partitions", 0, "logStart").equal(`"UNKNOWN_TOPIC_OR_PARTITION"`, "entries", 1, "error").
		equal(`"BAD_CURSOR"`, "entries", 2, "error").equal(`false`, "safeTimeDegraded")
	two := n.post("/api/v1/partitions/changed", `{"entries":[{"queue":"q","after":"`+one.str("entries", 0, "next")+`"}]}`)
	two.is(200).equal(`"p2"`, "entries", 0, "partitions", 0, "name").equal(`null`, "entries", 0, "next")
	n.push1("q", "p1", "t2", `2`)
	again := n.post("/api/v1/partitions/changed", `{"entries":[{"queue":"q","since":"`+one.str("safeTime")+`"}]}`).is(200)
	if again.len("entries", 0, "partitions") != 1 || again.str("entries", 0, "partitions", 0, "name") != "p1" {
		t.Errorf("%s", again.body)
	}
	n.post("/api/v1/partitions/changed", `{"entries":[{"queue":"q","since":"soon"}]}`).is(400)
}
