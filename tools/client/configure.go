package client

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"queen/tools/cli"
	"queen/tools/remote"
)

// queueOption is an option of a queue as a flag. Exactly those flags that are typed are sent.
type queueOption struct {
	flag, key string
	// unit is what a number counts: a duration, or 0 for other numbers; text and bool options have none.
	unit  time.Duration
	kind  optionKind
	usage string
}

type optionKind int

const (
	numberOption optionKind = iota
	boolOption
	textOption
)

var queueOptions = []queueOption{
	{"namespace", "namespace", 0, textOption, "label: the namespace; default: what is before the first dot of the name"},
	{"task", "task", 0, textOption, "label: the task"},
	{"lease-time", "leaseTime", time.Second, numberOption, "how long a delivered message is leased"},
	{"retry-limit", "retryLimit", 0, numberOption, "failures before a message becomes a dead letter"},
	{"retry-delay", "retryDelay", time.Millisecond, numberOption, "pause before a failed message is delivered again"},
	{"max-size", "maxSize", 0, numberOption, "pending messages at most; 0: no limit"},
	{"ttl", "ttl", time.Second, numberOption, "a message that is older is not delivered any more"},
	{"dead-letter-queue", "deadLetterQueue", 0, boolOption, "keep dead letters"},
	{"dlq-after-max-retries", "dlqAfterMaxRetries", 0, boolOption, "file a message that failed too often"},
	{"dlq-scope", "dlqScope", 0, textOption, "what is filed: message or batch"},
	{"delayed-processing", "delayedProcessing", time.Second, numberOption, "age before a message is delivered"},
	{"window-buffer", "windowBuffer", time.Second, numberOption, "deliver when a partition was quiet for so long"},
	{"retention", "retentionSeconds", time.Second, numberOption, "age after which messages are removed"},
	{"retention-ms", "retentionMs", time.Millisecond, numberOption, "the same, finer"},
	{"retention-bytes", "retentionBytes", 0, numberOption, "bytes kept of each partition"},
	{"completed-retention", "completedRetentionSeconds", time.Second, numberOption, "age after which settled messages are removed"},
	{"retention-enabled", "retentionEnabled", 0, boolOption, "remove what is too old"},
	{"encryption-enabled", "encryptionEnabled", 0, boolOption, "encrypt payloads at rest"},
	{"max-wait-time", "maxWaitTimeSeconds", time.Second, numberOption, "age after which a message that waits is removed"},
	{"min-pop-wait", "minPopWaitTime", time.Millisecond, numberOption, "pause that a pop makes for more messages"},
	{"dedup-window", "dedupWindowSeconds", time.Second, numberOption, "how long a transactionId makes duplicates"},
	{"retention-sink-hold", "retentionSinkHold", 0, textOption, "the consumer group that retention waits for"},
	{"retention-sink-hold-max", "retentionSinkHoldMaxSeconds", time.Second, numberOption, "how long it waits at most"},
	{"max-deliveries", "maxDeliveries", 0, numberOption, "deliveries before a message becomes a dead letter"},
	{"kafka-partitions", "kafkaPartitions", 0, numberOption, "width of the topic as Kafka sees it"},
	{"compact-keys", "compactKeys", 0, boolOption, "keep the newest record of each key, and remove older ones in time"},
	{"tombstone", "tombstoneMs", time.Millisecond, numberOption, "how long the mark of a deleted key is kept"},
	{"min-compaction-lag", "minCompactionLagMs", time.Millisecond, numberOption, "age before a record may be compacted away"},
	{"max-compaction-lag", "maxCompactionLagMs", time.Millisecond, numberOption, "age by which a partition is compacted"},
	{"compact-dirty-permille", "compactDirtyPermille", 0, numberOption, "thousandths of a partition that are new before it is compacted"},
	{"priority", "priority", 0, numberOption, "accepted and shown, without effect"},
}

// OptionNames are the options that have a flag, as the API names them.
func OptionNames() (names []string) {
	for _, o := range queueOptions {
		names = append(names, o.key)
	}
	return names
}

// optionFlags adds the flags of the options.
func optionFlags(f *pflag.FlagSet) {
	for _, o := range queueOptions {
		usage := o.usage
		switch {
		case o.kind == boolOption:
			f.Bool(o.flag, false, usage)
			continue
		case o.unit == time.Second:
			usage += "; seconds, or as 5m"
		case o.unit == time.Millisecond:
			usage += "; milliseconds, or as 5s"
		}
		f.String(o.flag, "", usage)
	}
}

// typedOptions are the options whose flags were given.
func typedOptions(f *pflag.FlagSet, unset []string) (map[string]any, error) {
	options := map[string]any{}
	for _, o := range queueOptions {
		if !f.Changed(o.flag) {
			continue
		}
		value, err := o.value(f.Lookup(o.flag).Value.String())
		if err != nil {
			return nil, err
		}
		options[o.key] = value
	}
	for _, name := range unset {
		i := slices.IndexFunc(queueOptions, func(o queueOption) bool { return o.flag == name || o.key == name })
		if i < 0 {
			return nil, cli.Errorf(cli.Usage, "--unset %s: there is no such option", name)
		}
		if options[queueOptions[i].key] != nil {
			return nil, cli.Errorf(cli.Usage, "--unset %s: it is set, too", name)
		}
		options[queueOptions[i].key] = nil
	}
	return options, nil
}

func (o *queueOption) value(text string) (any, error) {
	switch o.kind {
	case boolOption:
		return text == "true", nil
	case textOption:
		return text, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if o.unit == 0 {
		return nil, cli.Errorf(cli.Usage, "--%s %s: want a whole number", o.flag, text)
	}
	d, err := cli.ParseDuration(text)
	if err != nil || d%o.unit != 0 {
		return nil, cli.Errorf(cli.Usage, "--%s %s: want a number of %s, or a duration that is one", o.flag, text,
			map[time.Duration]string{time.Second: "seconds", time.Millisecond: "milliseconds"}[o.unit])
	}
	return int64(d / o.unit), nil
}

// queueConfigureCommand is both "create" and "configure".
func queueConfigureCommand(s cli.Streams, create bool) *cobra.Command {
	var w cli.Write
	var replace bool
	var unset []string
	cmd := &cobra.Command{Use: "configure QUEUE", Short: "Change options of a queue, which is made if it is not there",
		Args: cobra.ExactArgs(1), Long: `Change the options that are given; the others stay, unless --replace puts them back to their defaults.`,
		ValidArgsFunction: arguments(completeQueue(s))}
	f := cmd.Flags()
	if create {
		cmd.Use, cmd.Short, cmd.Long = "create QUEUE", "Make a queue; exits 4 when it is there already", ""
		cmd.ValidArgsFunction = nil
	} else {
		f.BoolVar(&replace, "replace", false, "what is not given goes back to its default")
		f.StringSliceVar(&unset, "unset", nil, "options that go back to their defaults")
	}
	optionFlags(f)
	w.DryRunFlag(cmd)
	columns := []string{"=queue", "configured", "namespace", "task", "options", "dryRun"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		options, err := typedOptions(f, unset)
		if err != nil {
			return err
		}
		body := map[string]any{"queue": args[0], "options": options}
		if replace {
			body["mode"] = "replace"
		}
		if create {
			switch there, err := s.queueExists(args[0]); {
			case err != nil:
				return err
			case there:
				s.Say("queue %s is there already: nothing was done", args[0])
				return cli.Exit(cli.Nothing)
			}
		} else if len(options) == 0 && !replace {
			return cli.Errorf(cli.Usage, "nothing to change: give an option, --unset or --replace")
		}
		if w.DryRun {
			body["configured"] = false
			return planned(out, body)
		}
		answer, err := s.Ask(request{Method: http.MethodPost, Path: "/api/v1/configure", Write: true, Body: body}, "configured")
		if err != nil {
			return err
		}
		return out.Detail(answer, optionPairs(answer))
	})
}

func (s *session) queueExists(name string) (bool, error) {
	_, err := s.Ask(get(queuePath(name)), "name")
	if remote.Status(err) == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// optionPairs are the members of an answer for people.
func optionPairs(answer row) (pairs [][2]string) {
	for _, name := range []string{"queue", "configured", "namespace", "task"} {
		pairs = append(pairs, [2]string{name, answer.Text(name)})
	}
	return append(pairs, [2]string{"options", answer.Text("options")})
}
