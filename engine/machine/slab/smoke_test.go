package slab

import "testing"

func TestSmoke(t *testing.T) {
	d := NewDue()
	for i := 1; i < 10000; i++ {
		d.Add(int64(i*7919%1000), Handle(i), 1)
	}
	last := int64(-1)
	d.PopDue(1<<60, 1<<30, func(it DueItem) {
		if it.Due < last {
			t.Fatal(it)
		}
		last = it.Due
	})
	n := NewNames()
	r, _ := n.Put([]byte("abc"))
	if string(n.Get(r)) != "abc" {
		t.Fatal()
	}
	x := NewIndex(1)
	for i := 1; i < 100000; i++ {
		x.Insert(x.Hash([]byte{byte(i), byte(i >> 8), byte(i >> 16)}), Handle(i))
	}
	for i := 1; i < 100000; i++ {
		if x.Find(x.Hash([]byte{byte(i), byte(i >> 8), byte(i >> 16)}), func(h Handle) bool { return h == Handle(i) }) != Handle(i) {
			t.Fatal(i)
		}
	}
}
