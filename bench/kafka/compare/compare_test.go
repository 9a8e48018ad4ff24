package main

import (
	"os"
	"path/filepath"
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
	n, err := node.Start(node.Options{Binary: binary, Data: filepath.Join(t.TempDir(), "data"), Kafka: "127.0.0.1:0",
		Args: []string{"--kafka-group-join-delay", "0s", "--kafka-default-partitions", "2"}})
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
	bad, err := report(os.Stdout, c, "kfake", testing.Verbose())
	if err != nil {
		t.Fatal(err)
	}
	if bad > 0 {
		t.Errorf("%d differences are not judged", bad)
	}
	if c.asked < 500 {
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
