package ops

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

// Verdicts of an applied manifest.
const (
	verdictCreated   = "created"
	verdictChanged   = "changed"
	verdictUnchanged = "unchanged"
	verdictPlanned   = "planned"
	verdictFailed    = "failed"
	verdictUnknown   = "unknown"
)

// applied is what became of a manifest.
type applied struct {
	Queue   string `json:"queue"`
	Verdict string `json:"verdict"`
	// Changes are what was changed, or would be.
	Changes []change `json:"changes"`
	// Bounded are options that the node keeps at another value than the manifest's, because that is beyond what it takes.
	Bounded []string `json:"bounded,omitempty"`
	Error   string   `json:"error,omitempty"`
	DryRun  bool     `json:"dryRun,omitempty"`
}

var appliedColumns = []cli.Column[applied]{
	{Head: "queue", Cell: func(a applied) string { return a.Queue }, Key: true},
	{Head: "verdict", Cell: func(a applied) string { return a.Verdict }, Tone: func(a applied) cli.Tone {
		if a.Verdict == verdictFailed || a.Verdict == verdictUnknown {
			return cli.Bad
		}
		return cli.Plain
	}, Help: "created, changed, unchanged, planned, failed, or unknown: it may have been applied"},
	{Head: "changes", Cell: func(a applied) string { return strings.Join(summary(a.Changes), ", ") }},
	{Head: "bounded", Cell: func(a applied) string { return strings.Join(a.Bounded, ", ") }, Wide: true,
		Help: "options that the node keeps at another value, since it does not take the manifest's"},
	{Head: "error", Cell: func(a applied) string { return a.Error }},
}

// summary says changes for people.
func summary(changes []change) (all []string) {
	for _, c := range changes {
		switch c.Change {
		case "create":
			all = append(all, "create")
		case "unset":
			all = append(all, fmt.Sprintf("%s %s -> default", c.Option, c.From))
		case "set":
			all = append(all, fmt.Sprintf("%s default -> %s", c.Option, c.To))
		default:
			all = append(all, fmt.Sprintf("%s %s -> %s", c.Option, c.From, c.To))
		}
	}
	return all
}

func applyCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "apply", Short: "Make queues as manifests say", Args: cobra.NoArgs,
		Long: `Make queues as manifests say. A manifest is all there is to say of a queue: options that it does not name go back to their
defaults. A key that is none is refused before anything is done.

  queue: orders
  namespace: shop
  options:
    leaseTime: 60
    retentionSeconds: 86400

Nothing is deleted by it, but a change of what messages are kept for can remove messages of a queue that exists: that asks
for the queue's name, or for --yes. Prints the plan on standard error and a verdict for every manifest; exits 6 when some or
all failed, which does not keep the others from being applied, 7 when answers were lost and nothing else failed, and 0 also
when nothing was to be changed.`}
	files := filesFlag(cmd)
	var w cli.Write
	w.DryRunFlag(cmd)
	w.YesFlag(cmd)
	return remote.Command(s, cmd, "json", appliedColumns, func(c *remote.Conn, out *cli.Printer[applied], _ []string) error {
		all, err := readManifests(c.Invocation, *files)
		if err != nil {
			return err
		}
		plans := make([][]change, len(all))
		for i := range all {
			is, err := current(c, all[i].Queue)
			if err != nil {
				return err
			}
			plans[i] = changes(is, &all[i])
		}
		if err := confirmPlan(c, plans, w); err != nil {
			return err
		}
		return applyAll(c, out, all, plans, w)
	})
}

// confirmPlan tells the plan, and asks where it can remove messages.
func confirmPlan(c *remote.Conn, plans [][]change, w cli.Write) error {
	var lines, removing []string
	for _, p := range plans {
		if len(p) == 0 {
			continue
		}
		lines = append(lines, fmt.Sprintf("queue %q: %s", p[0].Queue, strings.Join(summary(p), ", ")))
		if slices.ContainsFunc(p, func(c change) bool { return c.Removes }) {
			removing = append(removing, p[0].Queue)
		}
	}
	for _, l := range lines {
		c.Say("plan: %s", l)
	}
	if len(removing) == 0 || w.DryRun {
		return nil
	}
	name := removing[0]
	if len(removing) > 1 {
		name = fmt.Sprintf("%d queues", len(removing))
	}
	return c.Confirm(fmt.Sprintf("This changes for how long messages are kept in %s, which can remove some.", name), name, w)
}

// applyAll applies what is to be changed and prints every verdict.
func applyAll(c *remote.Conn, out *cli.Printer[applied], all []manifest, plans [][]change, w cli.Write) error {
	worst := cli.Done
	for i := range all {
		a := applied{Queue: all[i].Queue, Changes: plans[i], DryRun: w.DryRun}
		switch {
		case len(plans[i]) == 0:
			a.Verdict, a.Changes = verdictUnchanged, []change{}
		case w.DryRun:
			a.Verdict = verdictPlanned
		default:
			if err := applyOne(c, &all[i], &a); err != nil {
				switch code := cli.Code(err); {
				case code == cli.Auth || code == cli.Interrupted:
					return err
				case code == cli.OutcomeUnknown && worst != cli.Partly:
					worst = code
				case code != cli.OutcomeUnknown:
					worst = cli.Partly
				}
			}
		}
		if err := out.Add(a); err != nil {
			return err
		}
	}
	return cli.Exit(worst)
}

// applyOne replaces a queue's options.
func applyOne(c *remote.Conn, m *manifest, a *applied) error {
	body := map[string]any{"queue": m.Queue, "mode": "replace", "options": m.Options}
	if m.Namespace != "" {
		body["namespace"] = m.Namespace
	}
	if m.Task != "" {
		body["task"] = m.Task
	}
	var answer struct {
		Configured *bool
		Options    map[string]json.RawMessage
	}
	_, err := c.Call(c.Ctx, remote.Request{Method: http.MethodPost, Path: "/api/v1/configure", Body: body, Write: true}, &answer)
	if err == nil && answer.Configured == nil {
		err = stranger(c, "configured")
	}
	if err != nil {
		a.Verdict, a.Error = verdictFailed, err.Error()
		if cli.Code(err) == cli.OutcomeUnknown {
			a.Verdict = verdictUnknown
		}
		return err
	}
	a.Verdict = verdictChanged
	if a.Changes[0].Change == "create" {
		a.Verdict = verdictCreated
	}
	for i := range options {
		key := options[i].key
		if want, ok := m.Options[key]; ok && string(want) != string(answer.Options[key]) {
			a.Bounded = append(a.Bounded, fmt.Sprintf("%s %s", key, answer.Options[key]))
		}
	}
	return nil
}
