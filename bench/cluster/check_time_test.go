package main

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

func TestJudgeOfTimers(t *testing.T) {
	a, b := shotName{Key: "k"}, shotName{Key: "k", Gen: 1}
	for _, c := range []struct {
		name, want string
		do         func(h *timerHistory) []error
		fired      map[shotName]int
	}{
		{"scheduled and fired", "", func(h *timerHistory) []error {
			return []error{h.planned(a, "scheduled"), h.saw(a, 2*second, false)}
		}, map[shotName]int{a: 1}},
		{"scheduled and not fired", "did not fire", func(h *timerHistory) []error {
			return []error{h.planned(a, "scheduled")}
		}, nil},
		{"fired twice", "fired 2 times", func(h *timerHistory) []error {
			return []error{h.planned(a, "scheduled")}
		}, map[shotName]int{a: 2}},
		{"nobody knows whether it is there, and it is not", "", func(*timerHistory) []error { return nil }, nil},
		{"nobody knows whether it is there, and it is", "", func(*timerHistory) []error { return nil }, map[shotName]int{a: 1}},
		{"nobody knows whether it is there, and it is twice", "fired 2 times", func(*timerHistory) []error { return nil }, map[shotName]int{a: 2}},
		{"never scheduled", "nobody scheduled it", func(*timerHistory) []error { return nil }, map[shotName]int{{Key: "x"}: 1}},
		{"too early", "may not fire before 1s", func(h *timerHistory) []error {
			return []error{h.planned(a, "scheduled"), h.saw(a, second-1, false)}
		}, map[shotName]int{a: 1}},
		{"too early while clocks jump", "", func(h *timerHistory) []error {
			return []error{h.planned(a, "scheduled"), h.saw(a, second-1, true)}
		}, map[shotName]int{a: 1}},
		{"cancelled", "", func(h *timerHistory) []error {
			return []error{h.planned(a, "scheduled"), h.cancelled(a, "cancelled")}
		}, nil},
		{"cancelled and fired", "fired, though it was cancelled", func(h *timerHistory) []error {
			return []error{h.planned(a, "scheduled"), h.cancelled(a, "cancelled")}
		}, map[shotName]int{a: 1}},
		{"cancelled too late", "", func(h *timerHistory) []error {
			return []error{h.planned(a, "scheduled"), h.cancelled(a, "absent")}
		}, map[shotName]int{a: 1}},
		{"cancelled too late, but it never fired", "did not fire", func(h *timerHistory) []error {
			return []error{h.planned(a, "scheduled"), h.cancelled(a, "absent")}
		}, nil},
		{"a cancel without an answer that took place", "", func(h *timerHistory) []error {
			err := h.planned(a, "scheduled")
			h.doubt(a, true)
			return []error{err}
		}, nil},
		{"a cancel without an answer that did not", "", func(h *timerHistory) []error {
			err := h.planned(a, "scheduled")
			h.doubt(a, true)
			return []error{err}
		}, map[shotName]int{a: 1}},
		{"scheduled anew", "", func(h *timerHistory) []error {
			return []error{h.planned(a, "scheduled"), h.planned(b, "rescheduled")}
		}, map[shotName]int{b: 1}},
		{"scheduled anew, and the old one fired", "fired, though it was cancelled or scheduled anew", func(h *timerHistory) []error {
			return []error{h.planned(a, "scheduled"), h.planned(b, "rescheduled")}
		}, map[shotName]int{a: 1, b: 1}},
		{"scheduled anew after it had fired", "", func(h *timerHistory) []error {
			return []error{h.planned(a, "scheduled"), h.planned(b, "scheduled")}
		}, map[shotName]int{a: 1, b: 1}},
		{"scheduled anew without an answer, and neither fired", "did not fire", func(h *timerHistory) []error {
			err := h.planned(a, "scheduled")
			h.doubt(b, false)
			return []error{err}
		}, nil},
		{"scheduled anew without an answer, and the new one fired", "", func(h *timerHistory) []error {
			err := h.planned(a, "scheduled")
			h.doubt(b, false)
			return []error{err}
		}, map[shotName]int{b: 1}},
		{"the first of a key is scheduled anew", `answered with "rescheduled"`, func(h *timerHistory) []error {
			return []error{h.planned(a, "rescheduled")}
		}, map[shotName]int{a: 1}},
	} {
		h := &timerHistory{shots: map[shotName]*shot{}}
		h.plan(a, 50*time.Millisecond, second)
		h.plan(b, 0, 2*second)
		h.plan(a, 2*second, second) // asked for again: it counts from the first time
		errs := c.do(h)
		judged(t, c.name, c.want, append(errs, h.judge(c.fired)...)...)
	}
}

func TestJudgeOfKeys(t *testing.T) {
	type ops []porcupine.Operation
	op := func(client int, call, end int64, in keyInput, out keyOutput) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end}
	}
	put := func(v int) keyInput { return keyInput{kind: keyPut, value: v} }
	get, del := keyInput{kind: keyGet}, keyInput{kind: keyDelete}
	is := func(v int, version uint64) keyOutput { return keyOutput{found: true, value: v, version: version} }
	wrote := func(v int, version uint64) keyOutput {
		return keyOutput{applied: true, found: true, value: v, version: version}
	}
	unknown, absent := keyOutput{unknown: true}, keyOutput{}
	const ever = int64(time.Hour)
	for _, c := range []struct {
		name string
		ok   bool
		ops  ops
	}{
		{"a put and a read", true, ops{op(0, 0, 1, put(7), wrote(7, 1)), op(1, 2, 3, get, is(7, 1))}},
		{"a stale read", false, ops{op(0, 0, 1, put(7), wrote(7, 1)), op(0, 2, 3, put(8), wrote(8, 2)), op(1, 4, 5, get, is(7, 1))}},
		{"a read of what is being written", true, ops{op(0, 0, 1, put(7), wrote(7, 1)), op(0, 2, 6, put(8), wrote(8, 2)), op(1, 4, 5, get, is(7, 1))}},
		{"a lost write", false, ops{op(0, 0, 1, put(7), wrote(7, 1)), op(1, 2, 3, get, absent)}},
		{"a read of what nobody wrote", false, ops{op(0, 0, 1, put(7), wrote(7, 1)), op(1, 2, 3, get, is(9, 1))}},
		{"a version that does not rise", false, ops{op(0, 0, 1, put(7), wrote(7, 5)), op(0, 2, 3, put(8), wrote(8, 5))}},
		{"a read with another version", false, ops{op(0, 0, 1, put(7), wrote(7, 5)), op(1, 2, 3, get, is(7, 6))}},
		{"an unknown put that took place", true, ops{op(0, 0, ever, put(7), unknown), op(1, 2, 3, get, is(7, 4)), op(1, 4, 5, get, is(7, 4))}},
		{"an unknown put that did not", true, ops{op(0, 0, ever, put(7), unknown), op(1, 2, 3, get, absent)}},
		{"an unknown put that took place and not", false, ops{op(0, 0, ever, put(7), unknown), op(1, 2, 3, get, is(7, 4)), op(1, 4, 5, get, absent)}},
		{"an unknown put of two versions", false, ops{op(0, 0, ever, put(7), unknown), op(1, 2, 3, get, is(7, 4)), op(1, 4, 5, get, is(7, 5))}},
		{"a swap that wins", true, ops{op(0, 0, 1, put(7), wrote(7, 1)), op(1, 2, 3, keyInput{keySwap, 8, 1}, wrote(8, 2))}},
		{"two swaps that win over one version", false, ops{op(0, 0, 1, put(7), wrote(7, 1)), op(1, 2, 3, keyInput{keySwap, 8, 1}, wrote(8, 2)),
			op(2, 2, 3, keyInput{keySwap, 9, 1}, wrote(9, 3))}},
		{"a swap that loses", true, ops{op(0, 0, 1, put(7), wrote(7, 1)), op(0, 2, 3, put(8), wrote(8, 2)), op(1, 4, 5, keyInput{keySwap, 9, 1}, is(8, 2))}},
		{"a swap that loses for nothing", false, ops{op(0, 0, 1, put(7), wrote(7, 1)), op(1, 4, 5, keyInput{keySwap, 9, 1}, is(7, 1))}},
		{"a swap of what is gone", true, ops{op(0, 0, 1, put(7), wrote(7, 1)), op(0, 2, 3, del, keyOutput{applied: true, version: 2}),
			op(1, 4, 5, keyInput{keySwap, 9, 1}, absent)}},
		{"counted", true, ops{op(0, 0, 1, keyInput{kind: keyAdd, value: 2}, wrote(2, 1)),
			op(1, 0, 5, keyInput{kind: keyAdd, value: 3}, wrote(5, 2)), op(1, 6, 7, get, is(5, 2))}},
		{"a lost addition", false, ops{op(0, 0, 1, keyInput{kind: keyAdd, value: 2}, wrote(2, 1)), op(1, 2, 3, keyInput{kind: keyAdd, value: 3}, wrote(3, 2))}},
		{"an addition that took place twice", false, ops{op(0, 0, 1, keyInput{kind: keyAdd, value: 2}, wrote(2, 1)), op(1, 2, 3, get, is(4, 2))}},
		{"deleted", true, ops{op(0, 0, 1, put(7), wrote(7, 1)), op(0, 2, 3, del, keyOutput{applied: true, version: 2}), op(1, 4, 5, get, absent)}},
		{"deleted and there", false, ops{op(0, 0, 1, put(7), wrote(7, 1)), op(0, 2, 3, del, keyOutput{applied: true, version: 2}), op(1, 4, 5, get, is(7, 1))}},
		{"nothing to delete", true, ops{op(0, 0, 1, del, absent)}},
		{"nothing to delete, but there was", false, ops{op(0, 0, 1, put(7), wrote(7, 1)), op(0, 2, 3, del, absent)}},
		{"a version that is used again after a delete", false, ops{op(0, 0, 1, put(7), wrote(7, 3)), op(0, 2, 3, del, keyOutput{applied: true, version: 4}),
			op(0, 4, 5, put(8), wrote(8, 4))}},
	} {
		if err := judgeKey(c.ops); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestKeysAreJudgedEraByEra(t *testing.T) {
	var h keyHistory
	goOn := func() bool { return false }
	bad := []porcupine.Operation{{Input: keyInput{kind: keyGet}, Call: 0, Output: keyOutput{found: true, value: 1, version: 1}, Return: 1}}
	h.add(keyName{0, 1, 3}, bad[0])
	if errs := h.judge(3, goOn); len(errs) != 0 || len(h.ops) != 1 {
		t.Errorf("an era that goes on is judged: %v", errs)
	}
	judged(t, "the era before", "tenant 0: 1 operations on key k1-3", h.judge(4, goOn)...)
	if len(h.ops) != 0 || h.done != 1 {
		t.Errorf("%d keys are left of those that were judged", len(h.ops))
	}
}

func TestJudgeOfKafkaGroups(t *testing.T) {
	for _, c := range []struct {
		name, want string
		do         func(f *following) []error
	}{
		{"in order", "", func(f *following) []error {
			f.assign(0, 0)
			return []error{f.record(0, 0), f.record(0, 1)}
		}},
		{"the first record is skipped", "begins at offset 1", func(f *following) []error {
			f.assign(0, 0)
			return []error{f.record(0, 1)}
		}},
		{"a record is skipped", "offset 2 comes where 1 belongs", func(f *following) []error {
			f.assign(0, 0)
			return []error{f.record(0, 0), f.record(0, 2)}
		}},
		{"a record comes twice", "offset 0 comes where 1 belongs", func(f *following) []error {
			f.assign(0, 0)
			return []error{f.record(0, 0), f.record(0, 0)}
		}},
		{"handed over without a commit", "", func(f *following) []error {
			f.assign(0, 0)
			err := f.record(0, 0)
			f.revoke(0)
			f.assign(1, 0)
			return []error{err, f.record(1, 0)}
		}},
		{"handed over behind a commit", "", func(f *following) []error {
			f.assign(0, 0)
			err := f.record(0, 0)
			f.committing(1)
			f.answered(1, true, 0)
			f.revoke(0)
			f.assign(1, 0)
			return []error{err, f.record(1, 1)}
		}},
		{"a commit is lost", "begins at offset 0, 1 had been committed", func(f *following) []error {
			f.assign(0, 0)
			err := f.record(0, 0)
			f.committing(1)
			f.answered(1, true, 0)
			f.assign(1, 0)
			return []error{err, f.record(1, 0)}
		}},
		{"a commit without an answer", "", func(f *following) []error {
			f.assign(0, 0)
			err := f.record(0, 0)
			f.committing(1)
			f.answered(1, false, 0)
			f.assign(1, 0)
			f.assign(2, 0)
			return []error{err, f.record(1, 0), f.record(2, 1)}
		}},
		{"handed over behind what anybody committed", "nobody committed more than 1", func(f *following) []error {
			f.assign(0, 0)
			errs := []error{f.record(0, 0), f.record(0, 1)}
			f.committing(1)
			f.assign(1, 0)
			return append(errs, f.record(1, 2))
		}},
		{"a record of a partition that is another's", "lost the partition", func(f *following) []error {
			f.assign(0, 0)
			f.revoke(0)
			return []error{f.record(0, 0)}
		}},
	} {
		judged(t, c.name, c.want, c.do(newFollowing())...)
	}
}

func TestJudgeOfTransactions(t *testing.T) {
	type out struct {
		offset int64
		w, n   int
	}
	for _, c := range []struct {
		name, want string
		holds      []out
	}{
		{"each once, with ends of transactions between them", "", []out{{0, 0, 0}, {2, 1, 0}, {5, 0, 1}}},
		{"one is not there", "holds 2 messages of 3", []out{{0, 0, 0}, {2, 1, 0}}},
		{"one is left out", "message 1 of writer 0 where what is at offset 1 belongs", []out{{0, 0, 0}, {2, 0, 1}}},
		{"one is there twice", "message 0 of writer 0 where what is at offset 1 belongs", []out{{0, 0, 0}, {2, 0, 0}, {3, 1, 0}, {5, 0, 1}}},
		{"the last is there twice", "all 3 were there before", []out{{0, 0, 0}, {2, 1, 0}, {5, 0, 1}, {6, 0, 1}}},
	} {
		l := testLane()
		judged(t, c.name, "", l.tell(0, 0, 0, 0), l.tell(1, 0, 1, 0), l.tell(0, 1, 2, 0))
		copied := copying{from: l}
		var errs []error
		for _, o := range c.holds {
			errs = append(errs, copied.take(o.offset, payload(o.w, o.n)))
		}
		judged(t, c.name, c.want, append(errs, copied.end())...)
	}
}
