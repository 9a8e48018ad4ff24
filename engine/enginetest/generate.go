package enginetest

import (
	"math/rand/v2"
	"strings"
	"time"
)

// generator makes random operation lists over few names, so that operations meet.
type generator struct {
	r      *rand.Rand
	o      *RandomOptions
	queues int
	parts  int
	groups int
	// heavy lists fill log segments and let retention empty them.
	heavy bool
	// early is how many operations of the list set options before the first message.
	early int
	// queued are operations that follow whatever is drawn.
	queued []Op
}

// Fifty partitions at most over all queues, with those of the timers and the one of the queue that comes and goes; five
// groups with queue mode.
const (
	genQueues = 5
	genParts  = 9
	genGroups = 5
)

// Names that no push and no pop creates.
const (
	strangeQueue = 90
	strangeGroup = 90
)

func newGenerator(seed uint64, o *RandomOptions) *generator {
	g := &generator{r: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), o: o}
	// Some lists crowd everything on one partition, others spread out.
	g.queues = 1 + g.r.IntN(genQueues)
	g.parts = 1 + g.r.IntN(genParts)
	g.groups = 1 + g.r.IntN(genGroups)
	g.heavy = g.chance(15)
	return g
}

func (g *generator) list(n int) []Op {
	ops := make([]Op, 0, n)
	for range g.r.IntN(6) { // options before the first message
		ops = append(ops, g.configure(true))
	}
	if g.chance(15) {
		ops = append(ops, Op{Kind: opConfigure, Queue: g.r.IntN(g.queues), What: "delayedProcessing", N: 3 + 17*g.r.IntN(2)})
	}
	for q := range g.queues {
		if g.heavy {
			ops = append(ops, Op{Kind: opConfigure, Queue: q, What: "maxWaitTimeSeconds", N: 90})
		}
	}
	if g.chance(30) { // retention takes two options to act
		q := g.r.IntN(g.queues)
		what := []string{"retentionSeconds", "completedRetentionSeconds"}[g.r.IntN(2)]
		ops = append(ops, Op{Kind: opConfigure, Queue: q, What: "retentionEnabled", N: 1}, Op{Kind: opConfigure, Queue: q, What: what, N: 30})
	}
	g.early = len(ops)
	for len(ops) < n {
		if len(g.queued) > 0 {
			ops, g.queued = append(ops, g.queued[0]), g.queued[1:]
			continue
		}
		ops = append(ops, g.next())
	}
	return ops
}

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

func (g *generator) flag(letter string, percent int) string {
	if g.chance(percent) {
		return letter
	}
	return ""
}

// next draws one operation by weight.
func (g *generator) next() Op {
	o := Op{Queue: g.r.IntN(g.queues), Part: g.r.IntN(g.parts), Group: g.r.IntN(g.groups), Back: g.back()}
	if g.chance(1) { // names nobody has
		o.Queue, o.Group = strangeQueue, strangeGroup
	}
	if g.chance(4) {
		return g.seldom(o)
	}
	n := g.r.IntN(1000)
	if o.Queue == strangeQueue {
		n = 805 + g.r.IntN(110) // nothing that would create the queue
	}
	switch {
	case n < 280:
		return g.push(o)
	case n < 530:
		return g.pop(o)
	case n < 750:
		return g.ack(o)
	case n < 780:
		return Op{Kind: opExtend, Back: o.Back, For: g.span(2 * time.Minute), Flags: g.flag("l", 60)}
	case n < 802:
		return Op{Kind: opRelease, Back: o.Back, Flags: g.flag("1", 30) + g.flag("l", 70)}
	case n < 822:
		return g.seek(o)
	case n < 837:
		return g.configure(false)
	case n < 840:
		if g.chance(15) {
			o.Queue = strangeQueue
		}
		return Op{Kind: opDelQueue, Queue: o.Queue}
	case n < 844:
		return Op{Kind: opDelGroup, Queue: o.Queue, Group: o.Group, Flags: g.flag("k", 30)}
	case n < 848:
		if g.chance(20) {
			o.Group = strangeGroup
		}
		return Op{Kind: opSubscribe, Group: o.Group, For: g.span(time.Minute)}
	case n < 867:
		return g.redrive(o)
	case n < 872:
		return Op{Kind: opPurge, Queue: o.Queue, Group: o.Group, Back: o.Back, Flags: g.flag("g", 30) + g.flag("a", 60)}
	case n < 902:
		return g.read(o)
	case n < 911:
		return Op{Kind: opOffsets, Queue: o.Queue, Part: o.Part, N: g.r.IntN(20), For: g.span(2 * time.Minute)}
	case n < 920:
		return Op{Kind: opList}
	case n < 922 && !g.o.NoJumps:
		return Op{Kind: opJump, For: g.jump()}
	case n < 926:
		return Op{Kind: opReopen, Flags: g.flag("c", 60)}
	case n < 960:
		return Op{Kind: opEdge, N: g.r.IntN(1 + g.r.IntN(12)), Flags: g.flag("b", 50)}
	}
	return Op{Kind: opAdvance, For: g.advance()}
}

// seldom draws what little else leads to, so that each verdict occurs often enough in a long run.
func (g *generator) seldom(o Op) Op {
	set := func(what string, n int) Op { return Op{Kind: opConfigure, Queue: o.Queue, What: what, N: n} }
	move := Op{Kind: opRedrive, Queue: o.Queue, Part: o.Part, Back: g.r.IntN(3), Flags: "q" + g.flag("t", 50)}
	o.Group %= genGroups // nobody gets to know the strange one
	switch g.r.IntN(10) {
	case 0, 8:
		return g.subscribe(o)
	case 1, 7:
		return Op{Kind: opMessage, Back: o.Back, N: g.r.IntN(4), Flags: g.flag("z", 40)}
	case 2:
		return Op{Kind: opWrong, N: g.r.IntN(wrongCalls), Queue: o.Queue, Part: o.Part, Group: o.Group}
	case 9:
		return g.budget(o)
	case 3:
		return Op{Kind: opSeek, Queue: o.Queue, Part: o.Part, Group: strangeGroup, What: "end"}
	case 4: // a queue that exists and is empty
		empty := strangeQueue + 1
		g.queued = []Op{{Kind: opSeek, Queue: empty, Group: o.Group, What: "end", Flags: "w"}, {Kind: opDelQueue, Queue: empty},
			{Kind: opDelQueue, Queue: empty}}
		return Op{Kind: opPop, Queue: empty, Group: o.Group}
	case 5:
		if o.Queue != strangeQueue {
			g.queued = []Op{move, set("encryptionEnabled", 0)}
			return set("encryptionEnabled", 1)
		}
	case 6:
		if o.Queue != strangeQueue {
			g.queued = []Op{move, set("maxSize", 0)}
			return set("maxSize", 1)
		}
	}
	if g.chance(50) {
		o.Group = strangeGroup
	}
	return Op{Kind: opSubscribe, Group: o.Group, For: g.span(time.Minute)}
}

// subscribe moves the start of a group on a queue that nobody has popped for long: its partition is there before, or
// after.
func (g *generator) subscribe(o Op) Op {
	queue := strangeQueue + 1
	push := Op{Kind: opPush, Queue: queue, What: "-a"}
	pop := Op{Kind: opPop, Queue: queue, Group: o.Group, Flags: g.flag("f", 30)}
	ops := []Op{pop, push}
	if g.chance(50) {
		ops[0], ops[1] = push, pop
	}
	move := func() Op { return Op{Kind: opSubscribe, Group: o.Group, For: g.span(time.Minute)} }
	g.queued = append(ops, Op{Kind: opAdvance, For: g.span(time.Minute)}, move(), move(), pop, Op{Kind: opDelQueue, Queue: queue})
	return Op{Kind: opDelGroup, Queue: o.Queue, Group: o.Group, Flags: g.flag("k", 50)}
}

// budget fails the head of a partition until it is given up, with a stop in between.
func (g *generator) budget(o Op) Op {
	if o.Queue == strangeQueue {
		o.Queue = 0
	}
	pop := Op{Kind: opPop, Queue: o.Queue, Part: o.Part, Group: o.Group, N: 1, For: 30 * time.Second, Flags: "pl"}
	nack := Op{Kind: opAck, What: "f", Flags: "l"}
	g.queued = []Op{nack, {Kind: opReopen, Flags: g.flag("c", 60)}}
	for range 3 {
		g.queued = append(g.queued, pop, nack)
	}
	return pop
}

// back prefers the newest delivery and reaches far back at times.
func (g *generator) back() int {
	switch {
	case g.chance(60):
		return 0
	case g.chance(80):
		return g.r.IntN(5)
	}
	return g.r.IntN(40)
}

// redrive takes the newest dead letters, into a queue of its own or another, at times after the copy's
// id was pushed there by somebody.
func (g *generator) redrive(o Op) Op {
	op := Op{Kind: opRedrive, Part: o.Part, Flags: g.flag("a", 30) + g.flag("t", 30) + g.flag("d", 15)}
	if g.chance(40) {
		op.Back = g.r.IntN(6)
	}
	if g.chance(25) && o.Queue != strangeQueue {
		op.Queue, op.Flags = o.Queue, op.Flags+"q"
	}
	return op
}

func (g *generator) read(o Op) Op {
	op := Op{Kind: opRead, Queue: o.Queue, Part: o.Part, M: g.r.IntN(3) * g.r.IntN(400)}
	switch {
	case g.chance(50):
		op.N = g.r.IntN(20)
	case g.chance(20):
		op.Flags = "e" // at the end
	}
	return op
}

func (g *generator) push(o Op) Op {
	o.Kind, o.Group, o.Back = opPush, 0, 0
	var b strings.Builder
	for range 1 + g.r.IntN(1+g.r.IntN(12)) {
		switch {
		case g.chance(35):
			b.WriteByte('-')
		case g.chance(92):
			b.WriteByte(byte('a' + g.r.IntN(26))) // few ids: repeats are the point
		default:
			b.WriteByte('/')
		}
	}
	o.What = b.String()
	if g.heavy {
		o.Flags = g.flag("h", 50)
	}
	return o
}

func (g *generator) pop(o Op) Op {
	o.Kind, o.Back = opPop, 0
	o.Flags = g.flag("p", 20) + g.flag("c", 8) + g.flag("a", 15) + g.flag("x", 6)
	if o.Group >= 3 {
		o.Flags += g.flag("v", 70) // the first pop decides, later ones disagree
	}
	if !strings.Contains(o.Flags, "p") {
		o.Flags += g.flag("d", 6)
		o.Part = 0
	}
	switch g.r.IntN(4) {
	case 0:
		o.Flags += "l"
	case 1:
		o.Flags += "f"
	}
	if g.chance(70) {
		o.N = 1 + g.r.IntN(12)
	}
	if g.chance(60) {
		o.M = 1 + g.r.IntN(6)
	}
	if g.chance(60) {
		o.For = g.span(30 * time.Second)
	}
	if g.chance(10) {
		o.What = "bytes"
	}
	return o
}

// ack draws statuses for the messages of a delivery: mostly all of them completed, else a mixture.
func (g *generator) ack(o Op) Op {
	o.Kind, o.Queue, o.Part = opAck, 0, 0
	letters := "c"
	switch {
	case g.chance(30):
		letters = "ccc-frd"
	case g.chance(20):
		letters = "f"
	case g.chance(20):
		letters = "-c"
	case g.chance(10):
		letters = "d"
	}
	var b strings.Builder
	for range 1 + g.r.IntN(12) {
		b.WriteByte(letters[g.r.IntN(len(letters))])
	}
	o.What = b.String()
	if g.chance(6) { // no status at all
		at := g.r.IntN(len(o.What) + 1)
		o.What = o.What[:at] + "?" + o.What[at:]
	}
	o.Flags = g.flag("w", 8) + g.flag("l", 75) + g.flag("u", 10) + g.flag("f", 3) + g.flag("o", 15) + g.flag("m", 15) + g.flag("z", 4) + g.flag("g", 4)
	if strings.ContainsAny(o.What, "fr") && g.chance(30) {
		o.For = g.span(20 * time.Second)
	}
	if !strings.Contains(o.Flags, "g") {
		o.Group = 0
	}
	return o
}

func (g *generator) seek(o Op) Op {
	o.Kind, o.Back = opSeek, 0
	if g.chance(8) {
		o.Group = strangeGroup
	}
	if o.Flags = g.flag("w", 50); o.Flags == "w" {
		o.Group %= genGroups // a seek of all of a queue registers the group
	}
	o.What = []string{"end", "time", "offset"}[g.r.IntN(3)]
	if o.Flags == "w" && o.What == "offset" {
		o.What = "time"
	}
	o.N, o.For = g.r.IntN(25), g.span(2*time.Minute)
	return o
}

// genOptions are the options a list may set, with the values it may set them to.
var genOptions = []struct {
	name   string
	values []int
	early  bool // only before the first message: what a change means for what is stored is left open
}{
	{"leaseTime", []int{5, 30, 60}, false},
	{"retryLimit", []int{0, 0, 1, 2}, false},
	{"dedupWindowSeconds", []int{0, 10, 60, 3600}, false},
	{"delayedProcessing", []int{0, 3, 20}, true},
	{"windowBuffer", []int{0, 2, 5}, true},
	{"retryDelay", []int{0, 1000, 5000}, false},
	{"deadLetterQueue", []int{0, 1}, false},
	{"dlqAfterMaxRetries", []int{0, 1}, false},
	{"dlqScope", []int{0, 1}, false},
	{"maxDeliveries", []int{0, 2, 4}, false},
	{"retentionSeconds", []int{0, 60}, false},
	{"retentionEnabled", []int{0, 1}, false},
	{"completedRetentionSeconds", []int{0, 30}, false},
	{"maxWaitTimeSeconds", []int{0, 90}, false},
	{"maxSize", []int{0, 3, 10, 40}, false},
	{"encryptionEnabled", []int{0, 0, 1}, false},
}

func (g *generator) configure(early bool) Op {
	for {
		opt := genOptions[g.r.IntN(len(genOptions))]
		if opt.early && !early || contains(g.o.NoOptions, opt.name) {
			continue
		}
		return Op{Kind: opConfigure, Queue: g.r.IntN(g.queues), What: opt.name, N: opt.values[g.r.IntN(len(opt.values))]}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// span is a duration up to limit, in whole milliseconds, small ones as likely as large ones.
func (g *generator) span(limit time.Duration) time.Duration {
	top := 1 + g.r.Int64N(int64(limit/time.Millisecond))
	return time.Duration(1+g.r.Int64N(top)) * time.Millisecond
}

func (g *generator) advance() time.Duration {
	switch {
	case g.chance(20):
		return time.Microsecond
	case g.chance(70):
		return g.span(15 * time.Second)
	case g.chance(90):
		return g.span(5 * time.Minute)
	}
	return g.span(3 * time.Hour)
}

func (g *generator) jump() time.Duration {
	d := g.span(2 * time.Hour)
	if g.chance(50) {
		return -d
	}
	return d
}
