package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Each test of a judge has histories that keep the promise, for which want is empty, and ones that break it, with words of
// what the judge has to say.

// judged compares what a judge said with what it has to say.
func judged(t *testing.T, name, want string, errs ...error) {
	t.Helper()
	var said []string
	for _, err := range errs {
		if err != nil {
			said = append(said, err.Error())
		}
	}
	switch {
	case want == "" && len(said) > 0:
		t.Errorf("%s: %q", name, said)
	case want != "" && !strings.Contains(strings.Join(said, "\n"), want):
		t.Errorf("%s: %q, want %q", name, said, want)
	}
}

const second = time.Second

// testLane has two writers, who handed ten messages over each.
func testLane() *lane {
	h := newHistory(options{loadOptions: loadOptions{partitions: 2}})
	l := h.lanes[place{0, plainQueue, "p1"}]
	l.send(0, 10)
	l.send(1, 10)
	return l
}

func TestJudgeOfLeases(t *testing.T) {
	type step struct {
		lease       string
		first, last int64
		asked, came time.Duration
		// ack is the offset that is acked at a time, refusal says how; -1 is none.
		ack     int64
		refusal bool
		at      time.Duration
	}
	const none = -1
	for _, c := range []struct {
		name, want string
		steps      []step
	}{
		{"one after the other", "", []step{
			{"a", 0, 4, 0, 1 * second, 4, false, 2 * second},
			{"b", 5, 9, 1 * second, 3 * second, none, false, 0}}},
		{"the second once the first may have ended", "", []step{
			{"a", 0, 4, 0, 1 * second, none, false, 0},
			{"b", 0, 4, 1 * second, 4 * second, none, false, 0}}},
		{"given back by a refusal", "", []step{
			{"a", 0, 4, 0, 1 * second, 0, true, 1 * second},
			{"b", 0, 4, 1 * second, 2 * second, none, false, 0}}},
		{"two at once", "may not have ended", []step{
			{"a", 0, 4, 0, 1 * second, none, false, 0},
			{"b", 0, 4, 2 * second, 3 * second, none, false, 0}}},
		{"two at once over different messages", "may not have ended", []step{
			{"a", 0, 4, 0, 1 * second, 3, false, 2 * second},
			{"b", 4, 9, 2 * second, 3 * second, none, false, 0}}},
		{"two at once, the second after a long pop", "may not have ended", []step{
			{"a", 0, 4, 0, 1 * second, none, false, 0},
			{"b", 0, 4, 1 * second, 3900 * time.Millisecond, none, false, 0}}},
		{"the one that came later may be the older one", "", []step{
			{"b", 0, 4, 5 * second, 6 * second, none, false, 0},
			{"a", 0, 4, 0, 6500 * time.Millisecond, none, false, 0}}},
	} {
		l := testLane()
		l.taking.sent = 100 // that is not what is judged here
		var errs []error
		for _, s := range c.steps {
			errs = append(errs, l.taking.deliver(l, s.lease, s.first, s.last, s.asked, s.came)...)
			if s.ack >= 0 {
				l.taking.sending(s.lease, s.ack, s.refusal, s.at)
			}
		}
		judged(t, c.name, c.want, errs...)
	}
}

func TestJudgeOfExtendedLeases(t *testing.T) {
	for _, c := range []struct {
		name, want string
		came       time.Duration
	}{
		{"while it may be held", "may not have ended before 7s", 6 * second},
		{"once it may have ended", "", 7 * second},
	} {
		l := testLane()
		l.taking.deliver(l, "a", 0, 4, 0, 1*second)
		l.taking.extend("a", 3*second)
		judged(t, c.name, c.want, l.taking.deliver(l, "b", 0, 4, 5*second, c.came)...)
	}
}

func TestJudgeOfAcks(t *testing.T) {
	for _, c := range []struct {
		name, want string
		do         func(l *lane) []error
	}{
		{"what was acked does not come again", "", func(l *lane) []error {
			l.taking.sending("a", 4, false, 1*second)
			l.taking.done(4, 2*second)
			return l.taking.deliver(l, "b", 5, 9, 3*second, 4*second)
		}},
		{"a pop under way when the ack was answered", "", func(l *lane) []error {
			l.taking.sending("a", 4, false, 1*second)
			l.taking.done(4, 2*second)
			return l.taking.deliver(l, "b", 0, 4, 1*second, 2*second)
		}},
		{"an ack without an answer", "", func(l *lane) []error {
			l.taking.sending("a", 4, false, 1*second)
			l.taking.lost(4)
			return l.taking.deliver(l, "b", 0, 4, 10*second, 11*second)
		}},
		{"an ack is lost", "before which the answer to an ack", func(l *lane) []error {
			l.taking.sending("a", 4, false, 1*second)
			l.taking.done(4, 2*second)
			return l.taking.deliver(l, "b", 4, 9, 3*second, 4*second)
		}},
		{"an ack of one behind it completes a message", "before which the answer to an ack", func(l *lane) []error {
			l.taking.sending("a", 4, false, 1*second)
			l.taking.done(4, 2*second)
			return l.taking.deliver(l, "b", 2, 9, 3*second, 4*second)
		}},
		{"an ack of long ago is lost", "before which the answer to an ack", func(l *lane) []error {
			l.taking.sending("a", 4, false, 1*second)
			l.taking.done(4, 2*second)
			l.taking.done(3, 2*second+2*acksFor)
			return l.taking.deliver(l, "b", 4, 9, 3*second+2*acksFor, 4*second+2*acksFor)
		}},
		{"a message is skipped", "nothing above 4 was acked", func(l *lane) []error {
			l.taking.sending("a", 4, false, 1*second)
			l.taking.done(4, 2*second)
			return l.taking.deliver(l, "b", 6, 9, 3*second, 4*second)
		}},
		{"the first message is skipped", "nothing above -1 was acked", func(l *lane) []error {
			return l.taking.deliver(l, "b", 1, 9, 3*second, 4*second)
		}},
		{"a lease that has ended is refused", "", func(l *lane) []error {
			l.taking.deliver(l, "a", 0, 4, 0, 1*second)
			return []error{l.taking.refused(l, "a", 0, "invalid or expired lease", 5*second)}
		}},
		{"a lease that was given back is refused", "", func(l *lane) []error {
			l.taking.deliver(l, "a", 0, 4, 0, 1*second)
			l.taking.sending("a", 4, false, 1*second)
			return []error{l.taking.refused(l, "a", 4, "invalid or expired lease", 2*second)}
		}},
		{"a lease that lives is refused", "was refused at", func(l *lane) []error {
			l.taking.deliver(l, "a", 0, 4, 0, 1*second)
			return []error{l.taking.refused(l, "a", 0, "invalid or expired lease", 2*second)}
		}},
	} {
		l := testLane()
		judged(t, c.name, c.want, c.do(l)...)
	}
}

func TestWhatIsNotAckedIsLeft(t *testing.T) {
	h := newHistory(options{loadOptions: loadOptions{partitions: 1}})
	l := h.lanes[place{0, plainQueue, "p0"}]
	l.send(0, 3)
	for n := range 3 {
		judged(t, "tell", "", l.tell(0, n, int64(n), 0))
	}
	l.taking.done(0, second)
	l.taking.done(2, second)
	h.judgeTaken()
	if len(h.mu.broken) != 1 || !strings.Contains(h.mu.broken[0], "message at offset 1 was never acked") {
		t.Errorf("one message was not acked: %q", h.mu.broken)
	}
	h.mu.broken = nil
	l.taking.lost(1)
	if h.judgeTaken(); len(h.mu.broken) != 0 || l.left() != 0 {
		t.Errorf("all may have been acked: %q, %d left", h.mu.broken, l.left())
	}
}

// of is a message as a node holds it.
type of struct {
	w, n   int
	offset int64
}

func TestJudgeOfALog(t *testing.T) {
	told := []of{{0, 0, 0}, {1, 0, 1}, {0, 1, 2}, {1, 1, 3}}
	for _, c := range []struct {
		name, want string
		holds      []of
	}{
		{"as it was told", "", told},
		{"with one that nobody was told of", "", append(told[:4:4], of{0, 2, 4})},
		{"the last is lost", "message 1 of writer 1 was acknowledged", told[:3]},
		{"one is lost, the rest has moved up", "message 1 of writer 0 for one, and 0 of writer 1", []of{{0, 0, 0}, {0, 1, 1}, {1, 0, 2}}},
		{"one is lost, and there is a gap", "offset 2 comes where 1 belongs", []of{{0, 0, 0}, {0, 1, 2}, {1, 1, 3}}},
		{"one is lost, and nobody was told where it was", "there is no message 1 before it", append(told[:2:2], of{0, 2, 2})},
		{"one is twice", "holds message 1 of writer 1 again", append(told[:4:4], of{1, 1, 4})},
		{"two have changed places", "there is no message 0 before it", []of{{0, 1, 0}, {1, 0, 1}, {0, 0, 2}}},
		{"two writers have changed places", "for one, and", []of{{1, 0, 0}, {0, 0, 1}, {0, 1, 2}, {1, 1, 3}}},
		{"one of a writer who is none", "who is none", append(told[:4:4], of{2, 0, 4})},
		{"one that nobody wrote", "which nobody wrote", append(told[:4:4], of{0, 2, 4}, of{0, 3, 5}, of{0, 4, 6}, of{0, 5, 7}, of{0, 6, 8}, of{0, 7, 9},
			of{0, 8, 10}, of{0, 9, 11}, of{0, 10, 12})},
		{"nothing", "was acknowledged and is not there", nil},
	} {
		l := testLane()
		for _, m := range told {
			judged(t, c.name, "", l.tell(m.w, m.n, m.offset, 0))
		}
		judged(t, c.name, c.want, readAll(l, 0, c.holds, 0))
	}
}

// readAll reads what a node holds, made a microsecond one after the other, off by so many.
func readAll(l *lane, node int, holds []of, off int) error {
	r := l.read(node)
	for i, m := range holds {
		if err := r.take(m.w, m.n, m.offset, time.UnixMicro(int64(1_000_000+i+off))); err != nil {
			return err
		}
	}
	return r.end()
}

func TestNodesHoldTheSame(t *testing.T) {
	l := testLane()
	first := []of{{0, 0, 0}, {1, 0, 1}}
	judged(t, "first node", "", readAll(l, 0, first, 0))
	judged(t, "the same", "", readAll(l, 1, first, 0))
	judged(t, "other order", "for one, and", readAll(l, 1, []of{{1, 0, 0}, {0, 0, 1}}, 0))
	judged(t, "less", "of 2 that somebody was told of", readAll(l, 1, first[:1], 0))
	judged(t, "other times", "of other times", readAll(l, 1, first, 5))
	r := l.read(2)
	judged(t, "first message", "", r.take(0, 0, 0, time.UnixMicro(5)))
	judged(t, "time goes back", "the one before it at", r.take(1, 0, 1, time.UnixMicro(4)))
}

func TestJudgeOfWhatPushersAreTold(t *testing.T) {
	at := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name, want string
		first      bool
		floor      int64
		out        []pushed
	}{
		{"stored", "", true, 2, []pushed{{Status: "queued", Offset: at(2)}, {Status: "queued", Offset: at(3)}}},
		{"stored by a call that was not answered", "", false, 2, []pushed{{Status: "duplicate", Offset: at(2)}, {Status: "duplicate", Offset: at(3)}}},
		{"a duplicate of nothing", "was never pushed before", true, 2, []pushed{{Status: "duplicate", Offset: at(2)}, {Status: "queued", Offset: at(3)}}},
		{"not side by side", "messages of one push are at", true, 2, []pushed{{Status: "queued", Offset: at(2)}, {Status: "queued", Offset: at(4)}}},
		{"below what was there before", "below 2, which was acknowledged before", true, 2,
			[]pushed{{Status: "queued", Offset: at(1)}, {Status: "queued", Offset: at(2)}}},
		{"where another one is", "for one, and 1 of writer 1", false, 0, []pushed{{Status: "duplicate", Offset: at(1)}, {Status: "queued", Offset: at(2)}}},
		{"too few answers", "2 items were pushed, 1 answered", true, 2, []pushed{{Status: "queued", Offset: at(2)}}},
		{"no offset", "offset <nil>", true, 2, []pushed{{Status: "queued"}, {Status: "queued", Offset: at(3)}}},
		{"an offset that can not be", "where 2 are known of", true, 2, []pushed{{Status: "queued", Offset: at(1 << 40)}, {Status: "queued", Offset: at(1<<40 + 1)}}},
	} {
		l := testLane()
		judged(t, c.name, "", l.tell(1, 0, 0, 0), l.tell(1, 1, 1, 0))
		judged(t, c.name, c.want, l.pushedAll(0, 0, c.out, 2, c.floor, c.first))
	}
	l := testLane()
	if _, again := l.pushedAll(0, 0, []pushed{{Status: "error", Error: "x"}}, 1, 0, true).(refusedItem); !again || l.acked[0] != 0 {
		t.Error("a message that was refused counts as acknowledged")
	}
}

func TestJudgeOfRepeatedPushes(t *testing.T) {
	five, six := int64(5), int64(6)
	r := repeatOf{l: testLane(), writer: 0, number: 3, offset: 5, id: "m"}
	for _, c := range []struct {
		name, want string
		out        pushed
	}{
		{"known", "", pushed{Status: "duplicate", Offset: &five, MessageID: "m"}},
		{"stored again", `it is "queued"`, pushed{Status: "queued", Offset: &six, MessageID: "n"}},
		{"of another offset", "at 6 as m", pushed{Status: "duplicate", Offset: &six, MessageID: "m"}},
		{"of another message", "at 5 as n", pushed{Status: "duplicate", Offset: &five, MessageID: "n"}},
		{"without an offset", "at -1 as m", pushed{Status: "duplicate", MessageID: "m"}},
	} {
		judged(t, c.name, c.want, r.judge(&c.out))
	}
}

func TestLanesStayInTheirRaftGroup(t *testing.T) {
	l := testLane()
	judged(t, "first", "", l.inGroup(2), l.inGroup(2))
	judged(t, "another", "it was in raft group 2 and is in 1", l.inGroup(1))
}

func TestJudgeOfTimes(t *testing.T) {
	h, l, now := &history{}, testLane(), time.Unix(1000, 0)
	judged(t, "made before", "", h.sane(l, now.Add(-second), now))
	judged(t, "made later", "is here at", h.sane(l, now.Add(3*second), now))
	h.clocks = true
	judged(t, "clocks jump", "", h.sane(l, now.Add(3*second), now))
	judged(t, "and take the group's along", "is here at", h.sane(l, now.Add(time.Hour), now))
}

func TestPayloads(t *testing.T) {
	for n := range 200 {
		if w, got, ok := parsePayload(payload(n%3, n)); !ok || w != n%3 || got != n {
			t.Fatalf("message %d of writer %d reads as %d of %d, %v", n, n%3, got, w, ok)
		}
	}
	for _, bad := range []string{`{"w":0,"n":1,"x":""}`, `{"w":0,"n":-1}`, `{}`, ``, strings.Replace(string(payload(0, 7)), `"n":7`, `"n":8`, 1)} {
		if _, _, ok := parsePayload([]byte(bad)); ok {
			t.Errorf("%q passes for a payload", bad)
		}
	}
	if got := fromRecord([]byte(`{"k":null,"t":1,"v":"aGk="}`)); string(got) != "hi" {
		t.Errorf("the value of a record is %q", got)
	}
}

func TestJudgeOfIdempotencyKeys(t *testing.T) {
	judged(t, "counted once", "", counted(3, 3))
	judged(t, "counted twice", "made it 4", counted(3, 4))
	judged(t, "not counted", "made it 2", counted(3, 2))
}

func TestSumOfSteps(t *testing.T) {
	if got := sum(15); got != 28+28+1 {
		t.Errorf("fifteen steps add %d", got)
	}
}

func TestJudgeOfDeadLetters(t *testing.T) {
	dead := func(partition string, n int) letter {
		return letter{TransactionID: fmt.Sprint("0-", n), Partition: partition, ConsumerGroup: "g", ErrorMessage: poisonWords, Data: payload(0, n)}
	}
	other, silent, hollow := dead("d0", 9), dead("d0", 9), dead("d0", 9)
	other.ConsumerGroup, silent.ErrorMessage, hollow.Data = "h", "", payload(0, 8)
	for _, c := range []struct {
		name, want string
		all        []letter
	}{
		{"each once", "", []letter{dead("d0", 19), dead("d0", 9), dead("d1", 9)}},
		{"one is not there", "d1/0-9 was refused to the end", []letter{dead("d0", 19), dead("d0", 9)}},
		{"one is twice", "d0/0-9 is twice", []letter{dead("d0", 19), dead("d0", 9), dead("d1", 9), dead("d0", 9)}},
		{"one was not refused", "d0/0-8 is among the dead letters, and was not refused", []letter{dead("d0", 19), dead("d0", 9), dead("d1", 9), dead("d0", 8)}},
		{"one of another group", `is of group "h"`, []letter{dead("d0", 19), other, dead("d1", 9)}},
		{"one has lost its reason", `with error ""`, []letter{dead("d0", 19), silent, dead("d1", 9)}},
		{"one holds another message", "holds", []letter{dead("d0", 19), hollow, dead("d1", 9)}},
	} {
		h := newHistory(options{loadOptions: loadOptions{partitions: 1}})
		lanes := h.of(0, poisonQueue)
		for i, count := range []int{25, 12} {
			lanes[i].send(0, count)
			for n := range count {
				judged(t, c.name, "", lanes[i].tell(0, n, int64(n), 0))
			}
		}
		judged(t, c.name, c.want, judgeLetters(c.all, lanes)...)
	}
}

func TestJudgeOfRefusals(t *testing.T) {
	name := letterName{"d0", 9}
	for _, c := range []struct {
		name, want string
		filed      []bool // the answers
		lost       int    // refusals before them that got none
	}{
		{"as often as allowed", "", []bool{false, false, true}, 0},
		{"one answer was lost", "", []bool{false, true}, 1},
		{"too soon", "is a dead letter after 2 refusals", []bool{false, true}, 0},
		{"never", "was refused 3 times and is no dead letter", []bool{false, false, false}, 0},
	} {
		h := letterHistory{sent: map[letterName]int{}, failed: map[letterName]int{}}
		for range c.lost {
			h.sending(name)
		}
		var errs []error
		for _, filed := range c.filed {
			h.sending(name)
			errs = append(errs, h.answered(name, filed))
		}
		judged(t, c.name, c.want, errs...)
	}
}
