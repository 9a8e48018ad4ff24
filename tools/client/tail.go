package client

import (
	"maps"
	"net/http"
	"slices"
	"strings"
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
	pop       popper
	queue     string
	partition string
	from      string
	limit     int
	payload   string

	out     *cli.Printer[Message]
	printed int
	// next is the first offset not yet printed, by partition.
	next map[string]uint64
}

func tailCommand(s cli.Streams) *cobra.Command {
	t := tailer{next: map[string]uint64{}}
	cmd := &cobra.Command{Use: "tail QUEUE", Short: "Follow a queue", Args: cobra.ExactArgs(1),
		Long: `Print messages as they come, until a signal or --limit. Messages are read by offset: no lease is taken and no
cursor moves, unless --group is given, which consumes for that group and settles at delivery.`}
	f := cmd.Flags()
	f.StringVarP(&t.partition, "partition", "p", "", "only this partition")
	f.StringVar(&t.from, "from", "end", "where to begin: beginning or end")
	f.IntVarP(&t.limit, "limit", "n", 0, "end after so many messages; 0 goes on")
	f.StringVarP(&t.pop.group, "group", "g", "", "consume as this consumer group")
	f.StringVar(&t.payload, "payload", "auto", "how payloads are printed: auto, json, utf8, base64, hex, none")
	return command(s, cmd, "ndjson", func(s *session, args []string) error {
		t.session, t.queue, t.out = s, args[0], printer(s, messageColumns)
		return t.run()
	})
}

func (t *tailer) run() error {
	if t.from != "beginning" && t.from != "end" {
		return cli.Errorf(cli.Usage, "--from %s: there are beginning, end", t.from)
	}
	if t.limit < 0 {
		return cli.Errorf(cli.Usage, "--limit is at least 0")
	}
	if err := checkPayload(t.payload); err != nil {
		return err
	}
	if t.format != "ndjson" && t.limit == 0 {
		t.format = "ndjson" // the other formats print at the end, which does not come
		t.out = printer(t.session, messageColumns)
	}
	follow := t.followQueue
	switch {
	case t.pop.group != "":
		follow = t.followGroup
	case t.partition != "":
		follow = t.followPartition
	}
	err := follow()
	if closed := t.out.Close(); err == nil {
		err = closed
	}
	if t.ctx.Err() != nil {
		return cli.Exit(cli.Interrupted)
	}
	return err
}

// print prints messages in their order; done is true once the limit is reached.
func (t *tailer) print(messages []Message) (done bool, err error) {
	for _, m := range messages {
		if t.limit > 0 && t.printed == t.limit {
			return true, nil
		}
		t.next[m.Partition] = m.Offset + 1
		m.show(t.payload)
		if err := t.out.Add(m); err != nil {
			return true, err
		}
		t.printed++
	}
	return t.limit > 0 && t.printed == t.limit, nil
}

// followGroup consumes. The limit also bounds each pop, because what a pop delivers is settled.
func (t *tailer) followGroup() error {
	p := &t.pop
	p.session, p.queue, p.partition, p.from = t.session, t.queue, t.partition, "new"
	if t.from == "beginning" {
		p.from = "all"
	}
	p.autoAck, p.wait, p.partitions = true, tailWait, 64
	for {
		p.batch = 200
		if t.limit > 0 {
			p.batch = min(p.batch, t.limit-t.printed)
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
	if t.from == "end" {
		e.Offset = answers[0].HighWatermark
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

// changedPartition is a partition in the listing of a queue.
type changedPartition struct {
	Name       string
	LastOffset int64
	LogStart   uint64
}

// followQueue lists the queue's partitions again and again and reads those that have grown.
func (t *tailer) followQueue() error {
	first := true
	for {
		grown := map[string]uint64{}
		err := t.partitions(func(p changedPartition) error {
			next, known := t.next[p.Name]
			end := uint64(p.LastOffset + 1)
			switch {
			case known && next >= p.LogStart:
			case first && t.from == "end" && !known:
				next = end
			default:
				next = p.LogStart
			}
			if len(t.next) >= tailPartitionsMax && !known {
				return cli.Errorf(cli.Usage, "queue %s has more than %d partitions: name one with --partition", t.queue,
					tailPartitionsMax)
			}
			t.next[p.Name] = next
			if next < end {
				grown[p.Name] = next
			}
			return nil
		})
		if err != nil {
			return err
		}
		first = false
		done, err := t.readGrown(grown)
		if done || err != nil {
			return err
		}
		if len(grown) > 0 {
			continue
		}
		select {
		case <-t.ctx.Done():
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

// partitions calls f for every partition of the queue.
func (t *tailer) partitions(f func(changedPartition) error) error {
	var after *string
	for {
		var answer struct {
			Entries []struct {
				Error      string
				Partitions []changedPartition
				Next       *string
			}
		}
		entry := map[string]any{"queue": t.queue}
		if after != nil {
			entry["after"] = *after
		}
		if _, err := t.call(t.ctx, request{method: http.MethodPost, path: "/api/v1/partitions/changed",
			body: map[string]any{"entries": []any{entry}}}, &answer); err != nil {
			return err
		}
		if len(answer.Entries) != 1 {
			return cli.Errorf(cli.Server, "%d answers for 1 queue", len(answer.Entries))
		}
		e := &answer.Entries[0]
		switch {
		case strings.HasPrefix(e.Error, "UNKNOWN"):
			return cli.Errorf(cli.Usage, "there is no queue %s", t.queue)
		case e.Error != "":
			return cli.Errorf(cli.Server, "queue %s: %s", t.queue, e.Error)
		}
		for _, p := range e.Partitions {
			if err := f(p); err != nil {
				return err
			}
		}
		if e.Next == nil {
			return nil
		}
		after = e.Next
	}
}
