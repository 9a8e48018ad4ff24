package client

import (
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// popper runs one pop command.
type popper struct {
	*session
	queue, partition, group, from string
	queueMode, autoAck            bool
	batch, partitions             int
	wait, lease                   time.Duration
}

func popCommand(s cli.Streams) *cobra.Command {
	p := popper{}
	cmd := &cobra.Command{Use: "pop QUEUE", Short: "Take messages under a lease", Args: cobra.ExactArgs(1),
		Long: `Take messages as a worker of a consumer group. They are leased until the lease ends or ack settles them:

  queen pop orders --group billing | queen ack

Exits 4 when there is nothing to deliver.`, ValidArgsFunction: arguments(completeQueue(s))}
	f := cmd.Flags()
	p.groupFlags(s, cmd)
	f.StringVarP(&p.partition, "partition", "p", "", "only this partition")
	f.IntVarP(&p.batch, "batch", "n", 10, "messages at most")
	f.IntVar(&p.partitions, "partitions", 1, "partitions at most, 1 to 64")
	f.DurationVar(&p.wait, "wait", 0, "wait so long for a message")
	f.DurationVar(&p.lease, "lease", 0, "length of the lease in whole seconds; default: the queue's")
	f.BoolVar(&p.autoAck, "auto-ack", false, "settle at delivery: no lease, and a lost answer loses the messages")
	return messageCommand(s, cmd, poppedColumns, func(s *session, out *messages, args []string) error {
		p.session, p.queue = s, args[0]
		return p.run(out)
	})
}

// groupFlags are the flags that say as whom to read.
func (p *popper) groupFlags(s cli.Streams, cmd *cobra.Command) {
	f := cmd.Flags()
	groupFlag(s, cmd, &p.group, "the consumer group")
	f.BoolVar(&p.queueMode, "queue-mode", false, "without a group: all such readers share the queue")
	f.StringVar(&p.from, "from", "new", "where a group that is new starts: new, all, or a time: "+instantHelp)
	cmd.MarkFlagsMutuallyExclusive("group", "queue-mode")
}

func (p *popper) run(out *messages) error {
	switch {
	case p.group == "" && !p.queueMode:
		return cli.Errorf(cli.Usage, "pop moves a cursor: say whose with --group NAME or --queue-mode")
	case p.wait < 0 || p.wait > time.Minute:
		return cli.Errorf(cli.Usage, "--wait %s: want 0 to 1m", p.wait)
	case p.lease < 0 || p.lease%time.Second != 0:
		return cli.Errorf(cli.Usage, "--lease %s: want whole seconds", p.lease)
	case p.batch < 1 || p.partitions < 1 || p.partitions > 64:
		return cli.Errorf(cli.Usage, "--batch is at least 1, --partitions 1 to 64")
	}
	messages, err := p.pop()
	if err != nil {
		return err
	}
	for _, m := range messages {
		if err := out.add(m); err != nil {
			return err
		}
	}
	return out.end(nil)
}

// start is the query of where a new group starts.
func (p *popper) start(q url.Values) error {
	if p.from == "new" || p.from == "all" {
		q.Set("subscriptionMode", p.from)
		return nil
	}
	at, err := cli.ParseInstant("from", p.from)
	switch {
	case err != nil:
		return err
	case at.Beginning:
		q.Set("subscriptionMode", "all")
	case at.End:
		q.Set("subscriptionMode", "new")
	default:
		q.Set("subscriptionFrom", at.String())
	}
	return nil
}

func (p *popper) pop() ([]Message, error) {
	q := url.Values{"batch": {strconv.Itoa(p.batch)}, "partitions": {strconv.Itoa(p.partitions)},
		"wait": {strconv.FormatBool(p.wait > 0)}}
	if p.wait > 0 {
		q.Set("timeout", strconv.FormatInt(p.wait.Milliseconds(), 10))
	}
	if p.group != "" {
		q.Set("consumerGroup", p.group)
		if err := p.start(q); err != nil {
			return nil, err
		}
	}
	if p.lease > 0 {
		q.Set("leaseSeconds", strconv.FormatInt(int64(p.lease/time.Second), 10))
	}
	if p.autoAck {
		q.Set("commitOnDelivery", "true")
	}
	path := "/api/v1/pop/queue/" + url.PathEscape(p.queue)
	if p.partition != "" {
		path += "/partition/" + url.PathEscape(p.partition)
	}
	var answer struct{ Messages *[]Message }
	// A claim whose answer was lost is handed back by the node, or at the latest when its lease ends; but what is
	// settled at delivery is gone with the answer.
	r := get(path + "?" + q.Encode())
	r.Write = p.autoAck
	switch found, err := p.call(r, &answer); {
	case err != nil || !found:
		return nil, err
	case answer.Messages == nil:
		return nil, p.Stranger("there are no messages")
	}
	messages := *answer.Messages
	for i := range messages {
		m := &messages[i]
		m.Queue = p.queue
		if m.ConsumerGroup == queueMode {
			m.ConsumerGroup = ""
		}
	}
	return messages, nil
}
