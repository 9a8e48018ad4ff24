package frontendhttp

import (
	"fmt"
	"strings"
	"testing"
)

// txnOf is a body with n acks, n keys, and two messages to each of n partitions and one to another.
func txnOf(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"operations":[`)
	for i := range n {
		fmt.Fprintf(&b, `{"type":"ack","transactionId":"t%d","partitionId":"%d","leaseId":"L","consumerGroup":"g"},`, i, i+1)
		fmt.Fprintf(&b, `{"type":"push","items":[{"queue":"q","partition":"p%d","transactionId":"n%d","payload":{"x":%d}},`, i, i, i)
		fmt.Fprintf(&b, `{"queue":"q","partition":"p%d","payload":null}]},`, i)
	}
	b.WriteString(`{"type":"push","queue":"q","payload":1}],"kv":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"op":"incr","ns":"n","key":"k%d","delta":1,"forever":true}`, i)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// TestTransactionReuse: what is decoded into the memory of an earlier transaction is what is decoded into fresh memory.
func TestTransactionReuse(t *testing.T) {
	told := func(x *transaction, n int) string {
		if err := x.decode(txnOf(n), 0); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(x.elements, x.acks, x.appends, x.kv.ops, x.kv.names, x.kv.keys, len(x.ops()))
	}
	var used transaction
	for _, n := range []int{3, 1, 2, 20, 0, 1, 12, 5, 30, 4} {
		if got, want := told(&used, n), told(new(transaction), n); got != want {
			t.Fatalf("%d parts of each kind: %s, want %s", n, got, want)
		}
		used.reset()
	}
}

// TestTransactionDestinations: every queue and partition has an op of its own, however many there are and whatever is in
// their names.
func TestTransactionDestinations(t *testing.T) {
	var x transaction
	names := [][2]string{{"q", "a\x00b"}, {"q\x00a", "b"}, {"q1", "1a"}, {"q11", "a"}, {"", "q"}, {"q", ""}}
	for i := range 2 * fewAppends {
		names = append(names, [2]string{"q", fmt.Sprint(i)})
	}
	for range 2 {
		for i := range names {
			name := names[len(names)-1-i]
			at := x.appendFor([]byte(name[0]), []byte(name[1]))
			if at != i || x.appends[at].Queue != name[0] || x.appends[at].Partition != name[1] {
				t.Errorf("%q is op %d, %+v, want op %d", name, at, x.appends[at], i)
			}
		}
	}
}
