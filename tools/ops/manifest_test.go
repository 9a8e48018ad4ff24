package ops

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// read splits and parses a text.
func read(text string) (all []manifest, err error) {
	documents, err := split([]byte(text))
	if err != nil {
		return nil, err
	}
	for _, d := range documents {
		m, err := parseManifest(d)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// TestManifests: what may be written, and what each of it comes to, as JSON.
func TestManifests(t *testing.T) {
	for _, c := range []struct{ text, want, err string }{
		{"queue: a", `[{"queue":"a"}]`, ""},
		{"", "null", ""},
		{"# nothing\n---\n---\n", "null", ""},
		{"queue: a\n---\nqueue: b\n", `[{"queue":"a"},{"queue":"b"}]`, ""},
		{"- queue: a\n- queue: b\n---\nqueue: c", `[{"queue":"a"},{"queue":"b"},{"queue":"c"}]`, ""},
		{`{"queue":"a"}{"queue":"b"}` + "\n" + `[{"queue":"c"}]`, `[{"queue":"a"},{"queue":"b"},{"queue":"c"}]`, ""},
		{"{queue: a, options: {leaseTime: 5}}", `[{"queue":"a","options":{"leaseTime":5}}]`, ""},
		{"queue: 2026-11-30\nnamespace: no\ntask: \"7\"", `[{"queue":"2026-11-30","namespace":"no","task":"7"}]`, ""},
		{`{"queue":"\ud83d\ude00"}`, `[{"queue":"😀"}]`, ""},
		{"queue: a\noptions: &o {ttl: 0x10}\n---\nqueue: b", `[{"queue":"a","options":{"ttl":16}},{"queue":"b"}]`, ""},
		{"queue: a\noptions: {ttl: 9223372036854775807, retentionEnabled: true, dlqScope: batch}",
			`[{"queue":"a","options":{"dlqScope":"batch","retentionEnabled":true,"ttl":9223372036854775807}}]`, ""},
		{"queue: a\noptions:", `[{"queue":"a"}]`, ""},
		{"queue: 7", "", "queue must be a text, not 7"},
		{"task: a", "", "queue is missing"},
		{"a", "", "want an object"},
		{"- - queue: a", "", "want an object"},
		{"queue: a\nkind: queue", "", `there is no key "kind": there are queue, namespace, task, options`},
		{"queue: a\noptions: 5", "", "options of queue \"a\" must be an object"},
		{"queue: a\noptions: {retentionSecond: 5}", "", "did you mean retentionSeconds?"},
		{"queue: a\noptions: {ttl: 1.5}", "", "option ttl must be a whole number"},
		{"queue: a\noptions: {ttl: null}", "", "option ttl must be a whole number, not null"},
		{"queue: a\noptions: {retentionEnabled: 1}", "", "option retentionEnabled must be true or false, not 1"},
		{"queue: a\noptions: {ttl: 9223372036854775808}", "", "line 2"},
		{"queue: a\nqueue: b", "", "line 2: queue is there twice"},
		{`{"queue":"a","queue":"b"}`, "", "queue is there twice"},
		{"queue: [", "", "line 1"},
		{"a: " + strings.Repeat("[", 40) + strings.Repeat("]", 40), "", "nested more than 16 deep"},
		{"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: &d [*c,*c]\ne: &e [*d,*d]\nf: &f [*e,*e]\ng: &g [*f,*f]\nh: &h [*g,*g]\ni: [*h,*h]",
			"", "nested more than 16 deep"},
		{"a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 40) + "]", "", "once aliases are followed"},
	} {
		got, err := read(c.text)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, "%.80s", c.text)
			continue
		}
		require.NoError(t, err, "%.80s", c.text)
		text, err := json.Marshal(got)
		require.NoError(t, err)
		require.Equal(t, c.want, string(text), c.text)
	}
}

// FuzzManifests: no text ends the program, and what is read of one reads the same when it is printed.
func FuzzManifests(f *testing.F) {
	for _, seed := range []string{"queue: a\noptions: {ttl: 5}\n---\n- queue: b", `{"queue":"a"}[{"queue":"b","task":"t"}]`, "a: &a [*a]", "? {a: b}\n: c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := read(text)
		if err != nil || all == nil {
			return
		}
		printed, err := json.Marshal(all)
		require.NoError(t, err)
		again, err := read(string(printed))
		require.NoError(t, err, "%q", printed)
		require.Equal(t, all, again)
	})
}

// TestChanges: what makes one manifest of another, and which of it can remove messages.
func TestChanges(t *testing.T) {
	m := func(text string) *manifest {
		all, err := read(text)
		require.NoError(t, err)
		return &all[0]
	}
	is := m("queue: a\nnamespace: n\noptions: {ttl: 5, leaseTime: 6}")
	require.Empty(t, changes(is, is))
	got := changes(is, m("queue: a\ntask: t\noptions: {ttl: 4, retryLimit: 3}"))
	require.Equal(t, []string{`namespace "n" -> default`, `task default -> "t"`, "leaseTime 6 -> default", "retryLimit default -> 3", "ttl 5 -> 4"}, summary(got))
	for _, c := range got {
		require.Equal(t, c.Option == "ttl", c.Removes, c.Option)
	}
	created := changes(nil, m("queue: a\noptions: {ttl: 4}"))
	require.Equal(t, []string{"create", "ttl default -> 4"}, summary(created))
	require.False(t, created[1].Removes)
}

// TestTally: percentiles are right to two percent, and never above the longest.
func TestTally(t *testing.T) {
	for us := int64(1); us < 1e9; us += us/7 + 1 {
		d := time.Duration(us) * time.Microsecond
		got, want := slotMillis(slot(d)), float64(us)/1000
		require.GreaterOrEqual(t, got, want)
		require.LessOrEqual(t, got, want*1.02+0.001)
	}
	var n tally
	require.Zero(t, n.quantile(.99))
	for i := 1; i <= 100; i++ {
		n.add(2, time.Duration(i)*time.Millisecond)
	}
	require.InDelta(t, 50, n.quantile(.5), 1)
	require.InDelta(t, 99, n.quantile(.99), 2)
	r := n.row("push", 2*time.Second)
	require.Equal(t, uint64(200), r.Messages)
	require.InDelta(t, 100, r.MessagesPerSecond, .01)
	require.InDelta(t, 100, r.MaxMillis, .01)
	require.Less(t, slot(1<<63-1), len(n.micros))
}
