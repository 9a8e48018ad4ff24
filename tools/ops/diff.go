package ops

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

// change is one thing that a manifest says otherwise than the node.
type change struct {
	Queue string `json:"queue"`
	// Option is "queue" for one that is not there; "namespace" and "task" are options here.
	Option string `json:"option"`
	// Change is create, set, change or unset.
	Change string          `json:"change"`
	From   json.RawMessage `json:"from"`
	To     json.RawMessage `json:"to"`
	// Removes says that the change can remove messages.
	Removes bool `json:"removes"`
}

var changeColumns = []cli.Column[change]{
	{Head: "queue", Cell: func(c change) string { return c.Queue }, Key: true},
	{Head: "option", Cell: func(c change) string { return c.Option }},
	{Head: "change", Cell: func(c change) string { return c.Change }, Help: "create, set, change or unset, which is back to the default"},
	{Head: "from", Cell: func(c change) string { return cli.Unquoted(c.From) }},
	{Head: "to", Cell: func(c change) string { return cli.Unquoted(c.To) }},
	{Head: "removes", Cell: func(c change) string { return yesNo(c.Removes) }, Wide: true, Help: "it can remove messages"},
}

var none = json.RawMessage("null")

// current reads what is set on a queue; nil when there is none.
func current(c *remote.Conn, queue string) (*manifest, error) {
	var d struct {
		Namespace, Task string
		Options         map[string]json.RawMessage
		OptionsSet      []string
	}
	_, err := c.Call(c.Ctx, remote.Request{Method: http.MethodGet, Path: "/api/v1/resources/queues/" + url.PathEscape(queue)}, &d)
	if remote.Status(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if d.OptionsSet == nil {
		return nil, cli.Errorf(cli.Server, "%s does not tell which options of queue %q are set: it is older than this program", c.URL, queue)
	}
	m := &manifest{Queue: queue, Options: map[string]json.RawMessage{}}
	for _, key := range d.OptionsSet {
		switch key {
		case "namespace":
			m.Namespace = d.Namespace
		case "task":
			m.Task = d.Task
		default:
			if optionOf(key) == nil {
				return nil, cli.Errorf(cli.Server, "queue %q has an option that this program does not know, %s: use a newer one", queue, key)
			}
			m.Options[key] = d.Options[key]
		}
	}
	return m, nil
}

// changes are what makes of one manifest the other.
func changes(is *manifest, want *manifest) (all []change) {
	if is == nil {
		all = append(all, change{Queue: want.Queue, Option: "queue", Change: "create", From: none, To: none})
		is = &manifest{}
	}
	add := func(option string, from, to json.RawMessage, removes bool) {
		kind := "change"
		switch {
		case string(from) == string(to):
			return
		case from == nil:
			kind, from = "set", none
		case to == nil:
			kind, to = "unset", none
		}
		all = append(all, change{want.Queue, option, kind, from, to, removes})
	}
	add("namespace", label(is.Namespace), label(want.Namespace), false)
	add("task", label(is.Task), label(want.Task), false)
	for i := range options {
		o := &options[i]
		add(o.key, is.Options[o.key], want.Options[o.key], o.removes && is.Queue != "")
	}
	return all
}

// label is a text as JSON; an empty one is not set.
func label(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	b, _ := json.Marshal(s) // a string marshals
	return b
}

func diffCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "diff", Short: "Show what applying manifests would change", Args: cobra.NoArgs,
		Long: `Show, option by option, what "queen apply" with the same files would change. Changes nothing. Exits 0 when the node is as the
manifests say, 5 when it differs.`}
	files := filesFlag(cmd)
	return remote.Command(s, cmd, "json", changeColumns, func(c *remote.Conn, out *cli.Printer[change], _ []string) error {
		all, err := readManifests(c.Invocation, *files)
		if err != nil {
			return err
		}
		differ := false
		for i := range all {
			is, err := current(c, all[i].Queue)
			if err != nil {
				return err
			}
			found := changes(is, &all[i])
			differ = differ || len(found) > 0
			if err := out.AddAll(found); err != nil {
				return err
			}
		}
		if differ {
			return cli.Exit(cli.Findings)
		}
		return nil
	})
}

// filesFlag adds -f.
func filesFlag(cmd *cobra.Command) *[]string {
	return cmd.Flags().StringArrayP("file", "f", nil, "a file of manifests, YAML or JSON, of one or more documents; - is standard input; may be given again")
}

func exportCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "export [QUEUE...]", Short: "Print queues as manifests, which apply takes",
		Long: `Print queues as manifests: every option that was set, so that applying them elsewhere makes the same queues. Messages, cursors
and consumer groups are not in them. Without names all queues but those that the node keeps for itself (queen.*).

  queen export > queues.yaml
  queen apply --context other -f queues.yaml`}
	cmd.ValidArgsFunction = completeQueue(s)
	namespace := cmd.Flags().String("namespace", "", "only queues of this namespace")
	task := cmd.Flags().String("task", "", "only queues of this task")
	return remote.Command(s, cmd, "yaml", exportColumns, func(c *remote.Conn, out *cli.Printer[manifest], names []string) error {
		if len(names) == 0 {
			lines, err := queueLines(c)
			if err != nil {
				return err
			}
			sortQueues(lines, "name")
			for _, q := range lines {
				if !strings.HasPrefix(q.Queue, "queen.") {
					names = append(names, q.Queue)
				}
			}
		}
		return printManifests(c, out, names, func(m *manifest) bool {
			return (*namespace == "" || m.Namespace == *namespace) && (*task == "" || m.Task == *task)
		})
	})
}

// ExportConfigCommand is "queen queue export-config": export, of queues that are named, among the commands about queues.
func ExportConfigCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "export-config QUEUE...", Short: "Print queues as manifests, which apply takes", Args: cobra.MinimumNArgs(1),
		Long: `Print the queues named as manifests, as "queen export" does: every option that was set, so that "queen apply -f" makes the same
queues elsewhere.`, ValidArgsFunction: completeQueue(s)}
	return remote.Command(s, cmd, "yaml", exportColumns, func(c *remote.Conn, out *cli.Printer[manifest], names []string) error {
		return printManifests(c, out, names, func(*manifest) bool { return true })
	})
}

// printManifests prints those of the queues named that are wanted; one that is not there is an error.
func printManifests(c *remote.Conn, out *cli.Printer[manifest], names []string, wanted func(*manifest) bool) error {
	for _, name := range names {
		m, err := current(c, name)
		if err != nil {
			return err
		}
		if m == nil {
			return cli.Errorf(cli.Usage, "there is no queue %q", name)
		}
		if !wanted(m) {
			continue
		}
		if err := out.Add(*m); err != nil {
			return err
		}
	}
	return nil
}

var exportColumns = []cli.Column[manifest]{
	{Head: "queue", Cell: func(m manifest) string { return m.Queue }, Key: true},
	{Head: "namespace", Cell: func(m manifest) string { return m.Namespace }},
	{Head: "task", Cell: func(m manifest) string { return m.Task }},
	{Head: "options", Cell: func(m manifest) string {
		var set []string
		for _, key := range slices.Sorted(maps.Keys(m.Options)) {
			set = append(set, key+"="+cli.Unquoted(m.Options[key]))
		}
		return strings.Join(set, " ")
	}, Help: "those that are set"},
}
