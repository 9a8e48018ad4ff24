package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"queen/bench/internal/node"
)

// TestKfake: every key and version that the node and kfake serve, in the same state: what differs is judged.
func TestKfake(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a node")
	}
	binary, err := node.Build(filepath.Join(t.TempDir(), "queen"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := startNode(binary, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	}()
	other, addr, err := startFake()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	c, err := compare(t.Context(), n.Kafka, addr)
	if err != nil {
		t.Fatal(err)
	}
	bad, err := tell(os.Stdout, c, "kfake", testing.Verbose(), true)
	if err != nil {
		t.Fatal(err)
	}
	if bad > 0 {
		t.Errorf("%d findings are not judged", bad)
	}
	if c.asked < 1500 {
		t.Errorf("%d requests were sent", c.asked)
	}
}

// TestJudge: a difference counts as judged by a line that is about it and about nothing else.
func TestJudge(t *testing.T) {
	table, err := judgements("# a comment\nkfake Fetch start-* Topics[].Partitions[].X it is so for a reason\n"+
		"kafka Fetch * * another implementation's line\n", "kfake")
	if err != nil || len(table) != 1 {
		t.Fatal(len(table), err)
	}
	for want, d := range map[bool]*difference{
		true:  {key: 1, name: "start-there", path: bare("Topics[3].Partitions[12].X")},
		false: {key: 1, name: "end-there", path: "Topics[].Partitions[].X"},
	} {
		if got := judge(table, d) != nil; got != want {
			t.Errorf("%v: %v", d, got)
		}
	}
	if _, err := judgements("kfake Fetch * * short", "kfake"); err == nil {
		t.Error("a line without a reason is taken")
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"a*", "ab", true}, {"a*", "ba", false}, {"*:x", "play:x", true}, {"*:x", "play:xy", false},
		{"a*c*e", "abcde", true}, {"a*c*e", "ace", true}, {"a*c*e", "aec", false}, {"*", "", true}, {"ab*b", "ab", false},
	} {
		if got := fits(c.pattern, c.s); got != c.want {
			t.Errorf("%q %q: %v", c.pattern, c.s, got)
		}
	}
}

// TestTell: what is not judged, what failed and what is judged in vain count; a judgement that hangs on timing does not.
func TestTell(t *testing.T) {
	table, err := judgements("kafka? Fetch * * it hangs on the time\nkafka Fetch * * it is always so\n", "kafka")
	if err != nil || len(table) != 2 || !table[0].sometimes || table[1].sometimes {
		t.Fatal(table, err)
	}
	unused, err := judgements(judgedText, "kfake")
	if err != nil {
		t.Fatal(err)
	}
	c := &comparison{found: map[string]*difference{"x": {key: 1, name: "never:there", path: "Nothing"}}, order: []string{"x"}}
	c.fail("it was refused")
	for strict, want := range map[bool]int{false: 2, true: 2 + len(unused)} {
		var text strings.Builder
		bad, err := tell(&text, c, "kfake", false, strict)
		if err != nil || bad != want {
			t.Errorf("strict %v: %d, want %d, %v", strict, bad, want, err)
		}
		for _, line := range []string{"NOT JUDGED: Fetch never:there Nothing", "FAILED: it was refused", "MATCHES NOTHING: "} {
			if !strings.Contains(text.String(), line) {
				t.Errorf("%q is not told", line)
			}
		}
	}
}

// TestRecords: a batch that is made decodes as what it is, and a broken one is told.
func TestRecords(t *testing.T) {
	a := &actor{producer: 7, epoch: 2, sequence: 3}
	b := a.batch(transactional, "v")
	want := "at 0: 1 records to +0, attributes 0x10, producer true, epoch 2, sequence 3, times +0 +0"
	if got := batches(append(b, b...)); got != want+"; "+want {
		t.Error(got)
	}
	if got := batches(b[:len(b)-3]); got != "broken" {
		t.Error(got)
	}
}

// TestRefusal: an answer counts as refused by any code in it, and as early by those that time mends.
func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		answer         map[string]string
		refused, early bool
	}{
		{map[string]string{"(outcome)": answered, "ErrorCode": "0", "Topics[0].ErrorCode": "0"}, false, false},
		{map[string]string{"(outcome)": answered, "ErrorCode": "0", "Topics[0].ErrorCode": "45"}, true, false},
		{map[string]string{"(outcome)": answered, "Topics[0].Partitions[0].ErrorCode": "51"}, true, true},
		{map[string]string{"(outcome)": "closed the connection"}, true, false},
	} {
		if got := refusal(c.answer) != ""; got != c.refused || ready(c.answer) == c.early {
			t.Errorf("%v: refused %v, ready %v", c.answer, got, ready(c.answer))
		}
	}
}
