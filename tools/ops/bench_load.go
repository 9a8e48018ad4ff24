package ops

import (
	"context"
	"encoding/json"
	"math"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"queen/tools/cli"
	"queen/tools/remote"
)

// tally counts calls of one kind and how long they took.
type tally struct {
	mu                            sync.Mutex
	messages, calls, errors, late uint64
	micros                        [4096]uint64
	most                          time.Duration
	first                         error
}

// slot is where a duration is counted: 64 slots for each power of two of microseconds, so a percentile is right to 2 %.
func slot(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 1))
	shift := max(bits.Len64(us)-7, 0)
	return min(shift*64+int(us>>shift), 4095)
}

// slotMillis is the upper end of a slot.
func slotMillis(i int) float64 {
	if i < 128 {
		return float64(i) / 1000
	}
	shift := i/64 - 1
	return float64(uint64(i-shift*64+1)<<shift) / 1000
}

func (t *tally) add(messages int, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages += uint64(messages)
	t.calls++
	t.micros[slot(took)]++
	t.most = max(t.most, took)
}

func (t *tally) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errors++
	if t.first == nil {
		t.first = err
	}
}

// quantile is in milliseconds; 0 when nothing was counted.
func (t *tally) quantile(q float64) float64 {
	want, seen := uint64(math.Ceil(q*float64(t.calls))), uint64(0)
	for i, n := range t.micros {
		if seen += n; seen >= want && seen > 0 {
			return min(slotMillis(i), float64(t.most.Microseconds())/1000)
		}
	}
	return 0
}

func (t *tally) row(op string, span time.Duration) benchRow {
	t.mu.Lock()
	defer t.mu.Unlock()
	return benchRow{Op: op, Messages: t.messages, Calls: t.calls, MessagesPerSecond: float64(t.messages) / span.Seconds(), P50Millis: t.quantile(.5),
		P99Millis: t.quantile(.99), MaxMillis: float64(t.most.Microseconds()) / 1000, Errors: t.errors, Late: t.late}
}

// load is producers and consumers on one queue.
type load struct {
	b                     *bench
	c                     *remote.Conn
	begun, end            time.Time
	push, pop, ack, whole tally
	pad                   string
	// calls is for calls, which an interrupt lets end: a push that is cut off may be carried out once the queue is deleted.
	calls context.Context
}

func newLoad(b *bench, c *remote.Conn) *load {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	pad := make([]byte, b.payload) // text that hardly compresses
	for i := range pad {
		pad[i] = letters[rand.IntN(len(letters))]
	}
	return &load{b: b, c: c, pad: string(pad)}
}

// cutAfter is how long an interrupt waits for calls that are under way.
const cutAfter = 5 * time.Second

// run lasts for the duration, and a little for what is under way.
func (l *load) run() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.c.Ctx))
	defer cancel()
	defer context.AfterFunc(l.c.Ctx, func() { time.AfterFunc(cutAfter, cancel) })()
	l.calls = ctx
	l.begun = time.Now()
	l.end = l.begun.Add(l.b.duration)
	var wg sync.WaitGroup
	for i := range l.b.producers {
		wg.Go(func() { l.produce(i) })
	}
	for range l.b.consumers {
		wg.Go(l.consume)
	}
	wg.Wait()
}

func (l *load) over() bool { return l.c.Ctx.Err() != nil || !time.Now().Before(l.end) }

// pushItem is a message; its payload tells when it was pushed.
type pushItem struct {
	Queue         string `json:"queue"`
	Partition     string `json:"partition"`
	TransactionID string `json:"transactionId"`
	Payload       string `json:"payload"`
}

// backOff is how long a connection waits after a call that failed, so that a node that refuses is not stormed.
const backOff = 100 * time.Millisecond

// produce pushes until the time is over.
func (l *load) produce(producer int) {
	var gap time.Duration
	if l.b.rate > 0 {
		gap = time.Duration(float64(l.b.batch*l.b.producers) / l.b.rate * float64(time.Second))
	}
	due := l.begun.Add(gap * time.Duration(producer) / time.Duration(l.b.producers))
	items := make([]pushItem, l.b.batch)
	for n := 0; !l.over(); n++ {
		if gap > 0 {
			if wait := time.Until(due); wait > 0 && !l.pause(wait) {
				return
			}
			l.noteLate(due)
		} else {
			due = time.Now()
		}
		stamp := strconv.FormatInt(due.UnixMicro(), 36) + " "
		for i := range items {
			items[i] = pushItem{l.b.queue, partition(rand.IntN(l.b.partitions)), strconv.Itoa(producer) + "-" + strconv.Itoa(n) + "-" + strconv.Itoa(i),
				stamp + l.pad[min(len(stamp), len(l.pad)):]}
		}
		var verdicts []struct{ Status string }
		_, err := l.c.Call(l.calls, remote.Request{Method: http.MethodPost, Path: "/api/v1/push", Body: map[string]any{"items": items}, Write: true},
			&verdicts)
		for _, v := range verdicts {
			if err == nil && v.Status != "queued" {
				err = cli.Errorf(cli.Server, "a message was answered %s", v.Status)
			}
		}
		l.settle(&l.push, len(items), due, err)
		due = due.Add(gap)
	}
}

// noteLate counts pushes that begin after their time.
func (l *load) noteLate(due time.Time) {
	if time.Since(due) > time.Millisecond {
		l.push.mu.Lock()
		l.push.late++
		l.push.mu.Unlock()
	}
}

// pause waits, and tells whether there is anything left to do.
func (l *load) pause(d time.Duration) bool {
	timer := time.NewTimer(min(d, time.Until(l.end)))
	defer timer.Stop()
	select {
	case <-l.c.Ctx.Done():
	case <-timer.C:
	}
	return !l.over()
}

// settle counts a call that is over.
func (l *load) settle(t *tally, messages int, begun time.Time, err error) (ok bool) {
	switch {
	case err == nil:
		t.add(messages, time.Since(begun))
	case l.c.Ctx.Err() == nil:
		t.fail(err)
		l.pause(backOff)
	}
	return err == nil
}

// popped is what is read of a pop.
type popped struct {
	LeaseID  string
	Messages []struct {
		TransactionID, PartitionID, LeaseID string
		Data                                json.RawMessage
	}
}

// consume pops and acks until the time is over.
func (l *load) consume() {
	q := url.Values{"consumerGroup": {"bench"}, "subscriptionMode": {"all"}, "batch": {strconv.Itoa(l.b.pop)}, "partitions": {"64"},
		"wait": {"true"}, "timeout": {"1000"}}
	path := "/api/v1/pop/queue/" + url.PathEscape(l.b.queue) + "?" + q.Encode()
	for !l.over() {
		begun := time.Now()
		var got popped
		found, err := l.c.Call(l.calls, remote.Request{Method: http.MethodGet, Path: path}, &got)
		if err == nil && !found {
			continue // it waited and nothing came
		}
		if l.settle(&l.pop, len(got.Messages), begun, err) && len(got.Messages) > 0 {
			l.acknowledge(&got)
		}
	}
}

// acknowledge acks what was popped, an item for each message.
func (l *load) acknowledge(got *popped) {
	type item struct {
		TransactionID string `json:"transactionId"`
		PartitionID   string `json:"partitionId"`
		LeaseID       string `json:"leaseId"`
	}
	items := make([]item, len(got.Messages))
	for i, m := range got.Messages {
		items[i] = item{m.TransactionID, m.PartitionID, m.LeaseID}
		if items[i].LeaseID == "" {
			items[i].LeaseID = got.LeaseID
		}
	}
	begun := time.Now()
	var verdicts []struct {
		Success bool
		Error   *string
	}
	_, err := l.c.Call(l.calls, remote.Request{Method: http.MethodPost, Path: "/api/v1/ack/batch", Write: true,
		Body: map[string]any{"consumerGroup": "bench", "acknowledgments": items}}, &verdicts)
	for _, v := range verdicts {
		if err == nil && !v.Success {
			err = cli.Errorf(cli.Server, "an ack was refused: %s", text(v.Error))
		}
	}
	if !l.settle(&l.ack, len(items), begun, err) {
		return
	}
	now := time.Now()
	for _, m := range got.Messages {
		var payload string
		if json.Unmarshal(m.Data, &payload) != nil {
			continue
		}
		stamp, _, _ := strings.Cut(payload, " ")
		if us, err := strconv.ParseInt(stamp, 36, 64); err == nil {
			l.whole.add(1, now.Sub(time.UnixMicro(us)))
		}
	}
}

// rows are the report, the pushes first.
func (l *load) rows() []benchRow {
	span := l.b.duration
	rows := []benchRow{l.push.row("push", span)}
	if l.b.consumers > 0 {
		rows = append(rows, l.pop.row("pop", span), l.ack.row("ack", span), l.whole.row("end_to_end", span))
	}
	return rows
}

func (l *load) firstError() error {
	for _, t := range []*tally{&l.push, &l.pop, &l.ack} {
		if t.first != nil {
			return t.first
		}
	}
	return nil
}
