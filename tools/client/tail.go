package client

import (
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

const (
	// tailPartitionsMax bounds what a tail of a whole queue keeps in memory.
	tailPartitionsMax = 200_000
	// fetchEntriesMax is how many partitions one read by offset may name.
	fetchEntriesMax = 1024
	// tailPause is the pause between looks for new messages in a whole queue; one partition is waited for by the node.
	tailPause = 250 * time.Millisecond
	tailWait  = 20 * time.Second
)

// tailer runs one tail command.
type tailer struct {
	*session
	*messages
	pop       popper
	queue     string
	partition string
	start     string
	from      cli.Instant
	limit     int

	// next is the first offset not yet printed, by partition.
	next map[string]uint64
}

func tailCommand(s cli.Streams) *cobra.Command {
	t := tailer{next: map[string]uint64{}}
	cmd := &cobra.Command{Use: "tail QUEUE", Short: "Follow a queue", Args: cobra.ExactArgs(1),
		Long: `Print messages as they come, until a signal or --limit. Messages are read by offset: no lease is taken and no
cursor moves, unless --group is given, which consumes for that group and settles at delivery.`,
		ValidArgsFunction: arguments(completeQueue(s))}
	f := cmd.Flags()
	f.StringVarP(&t.partition, "partition", "p", "", "only this partition")
	f.StringVar(&t.start, "from", "end", "where to begin: "+instantHelp)
	f.IntVarP(&t.limit, "limit", "n", 0, "end after so many messages; 0 goes on")
	groupFlag(s, cmd, &t.pop.group, "consume as this consumer group")
	return messageCommand(s, cmd, messageColumns, func(s *session, out *messages, args []string) (err error) {
		t.session, t.messages, t.queue = s, out, args[0]
		if t.from, err = cli.ParseInstant("from", t.start); err != nil {
			return err
		}
		if t.limit < 0 {
			return cli.Errorf(cli.Usage, "--limit is at least 0")
		}
		return t.run()
	})
}

func (t *tailer) run() error {
	follow := t.followQueue
	switch {
	case t.pop.group != "":
		follow = t.followGroup
	case t.partition != "":
		follow = t.followPartition
	}
	err := follow()
	if t.Ctx.Err() != nil {
		return cli.Exit(cli.Interrupted)
	}
	return err
}

// print prints messages in their order; done is true once the limit is reached.
func (t *tailer) print(messages []Message) (done bool, err error) {
	for _, m := range messages {
		if t.limit > 0 && t.n == t.limit {
			break
		}
		t.next[m.Partition] = m.Offset + 1
		if err := t.add(m); err != nil {
			return true, err
		}
	}
	return t.limit > 0 && t.n == t.limit, t.flush()
}

// followGroup consumes. The limit also bounds each pop, because what a pop delivers is settled.
func (t *tailer) followGroup() error {
	p := &t.pop
	p.session, p.queue, p.partition, p.from = t.session, t.queue, t.partition, t.from.String()
	p.autoAck, p.wait, p.partitions = true, tailWait, 64
	for {
		p.batch = 200
		if t.limit > 0 {
			p.batch = min(p.batch, t.limit-t.n)
		}
		messages, err := p.pop()
		if err != nil {
			return err
		}
		if done, err := t.print(messages); done || err != nil {
			return err
		}
	}
}

// followPartition lets the node wait.
func (t *tailer) followPartition() error {
	e := fetchEntry{Queue: t.queue, Partition: t.partition}
	answers, err := t.fetch([]fetchEntry{e}, 0)
	if err != nil {
		return err
	}
	if answers[0].Error == "UNKNOWN_TOPIC_OR_PARTITION" {
		return answers[0].refusal(e)
	}
	e.Offset = answers[0].LogStartOffset
	switch {
	case t.from.End:
		e.Offset = answers[0].HighWatermark
	case !t.from.Beginning:
		offsets, err := t.offsetsAt(t.queue, []string{t.partition}, t.from)
		if err != nil {
			return err
		}
		e.Offset = offsets[0]
	}
	for {
		answers, err := t.fetch([]fetchEntry{e}, tailWait)
		if err != nil {
			return err
		}
		a := &answers[0]
		if a.Error == "OFFSET_OUT_OF_RANGE" && a.LogStartOffset > e.Offset { // retention was faster
			e.Offset = a.LogStartOffset
			continue
		}
		if a.Error != "" {
			return a.refusal(e)
		}
		done, err := t.print(a.messages(t.queue))
		if done || err != nil {
			return err
		}
		if n, ok := t.next[t.partition]; ok {
			e.Offset = n
		}
	}
}

// begin says for every partition that there is where its tail starts. Those that come later are printed from their first
// message on.
func (t *tailer) begin() error {
	var asked []string
	err := t.partitions(t.queue, func(p changedPartition) error {
		if len(t.next) >= tailPartitionsMax {
			return t.tooMany()
		}
		t.next[p.Name] = p.LogStart
		switch {
		case t.from.End:
			t.next[p.Name] = p.end()
		case !t.from.Beginning:
			asked = append(asked, p.Name)
		}
		return nil
	})
	for names := range slices.Chunk(asked, fetchEntriesMax) {
		if err != nil {
			return err
		}
		var offsets []uint64
		if offsets, err = t.offsetsAt(t.queue, names, t.from); err == nil {
			for i, name := range names {
				t.next[name] = offsets[i]
			}
		}
	}
	return err
}

func (t *tailer) tooMany() error {
	return cli.Errorf(cli.Usage, "queue %s has more than %d partitions: name one with --partition", t.queue, tailPartitionsMax)
}

// followQueue lists the queue's partitions again and again and reads those that have grown.
func (t *tailer) followQueue() error {
	if err := t.begin(); err != nil {
		return err
	}
	for {
		grown := map[string]uint64{}
		err := t.partitions(t.queue, func(p changedPartition) error {
			next, known := t.next[p.Name]
			if !known && len(t.next) >= tailPartitionsMax {
				return t.tooMany()
			}
			next = max(next, p.LogStart)
			t.next[p.Name] = next
			if next < p.end() {
				grown[p.Name] = next
			}
			return nil
		})
		if err != nil {
			return err
		}
		done, err := t.readGrown(grown)
		if done || err != nil {
			return err
		}
		if len(grown) > 0 {
			continue
		}
		select {
		case <-t.Ctx.Done():
			return nil
		case <-time.After(tailPause):
		}
	}
}

// readGrown reads partitions from their next offsets, in the order of their names.
func (t *tailer) readGrown(grown map[string]uint64) (done bool, err error) {
	for names := range slices.Chunk(slices.Sorted(maps.Keys(grown)), fetchEntriesMax) {
		entries := make([]fetchEntry, len(names))
		for i, name := range names {
			entries[i] = fetchEntry{Queue: t.queue, Partition: name, Offset: grown[name]}
		}
		answers, err := t.fetch(entries, 0)
		if err != nil {
			return true, err
		}
		for i := range answers {
			a := &answers[i]
			switch {
			case a.Error == "OFFSET_OUT_OF_RANGE":
				t.next[names[i]] = max(a.LogStartOffset, grown[names[i]])
			case a.Error != "":
				return true, a.refusal(entries[i])
			}
			if done, err := t.print(a.messages(t.queue)); done || err != nil {
				return true, err
			}
		}
	}
	return false, nil
}
