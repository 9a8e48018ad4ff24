package ops

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

// status is the state of a node and, in sums, of what is on it.
type status struct {
	URL string `json:"url"`
	// Healthy: it can commit, and raises no critical alarm.
	Healthy bool    `json:"healthy"`
	Ready   bool    `json:"ready"`
	Why     *string `json:"why"`
	Version string  `json:"version,omitempty"`
	Role    string  `json:"role"`
	// Node and Leader are numbers in a cluster, null on a single node.
	Node   *uint64 `json:"node"`
	Leader *uint64 `json:"leader"`
	// Quorum: a majority answers. Null while that is not known.
	Quorum          *bool    `json:"quorum"`
	Phase           *string  `json:"phase"`
	Progress        float64  `json:"progress"`
	Term            uint64   `json:"term"`
	Applied         uint64   `json:"applied"`
	DiskUsedPercent *float64 `json:"diskUsedPercent"`
	StorageFull     bool     `json:"storageFull"`
	// Totals is null while the node can not count.
	Totals *totals `json:"totals"`
	Alarms []alarm `json:"alarms"`
	// Members are the nodes of its cluster, none of a single node.
	Members []memberRow `json:"members"`
	// Groups are those furthest behind.
	Groups []groupLag `json:"groups"`
	// Queues are those with the most pending messages.
	Queues []queueLine `json:"queues"`
}

// totals are sums over the caller's queues, as of the last count.
type totals struct {
	Queues             uint64  `json:"queues"`
	Partitions         uint64  `json:"partitions"`
	Messages           uint64  `json:"messages"`
	Pending            uint64  `json:"pending"`
	Processing         uint64  `json:"processing"`
	DeadLetters        uint64  `json:"deadLetters"`
	Lag                uint64  `json:"lag"`
	LagMax             uint64  `json:"lagMax"`
	PushedPerSecond    float64 `json:"pushedPerSecond"`
	DeliveredPerSecond float64 `json:"deliveredPerSecond"`
	CountedSecondsAgo  *int64  `json:"countedSecondsAgo"`
}

type alarm struct {
	Cause    string `json:"cause"`
	Severity string `json:"severity"`
	NextStep string `json:"nextStep"`
}

var statusColumns = []cli.Column[status]{
	{Head: "url", Cell: func(s status) string { return s.URL }, Key: true},
	{Head: "healthy", Cell: func(s status) string { return yesNo(s.Healthy) }, Tone: func(s status) cli.Tone {
		if s.Healthy {
			return cli.Good
		}
		return cli.Bad
	}, Help: "it can commit and raises no critical alarm"},
	{Head: "role", Cell: func(s status) string { return s.Role }},
	{Head: "why", Cell: func(s status) string { return text(s.Why) }},
}

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}

// shown is how many groups and queues a status has.
const shown = 10

func statusCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Show the state of a node: health, totals, alarms, who is behind", Args: cobra.NoArgs,
		Long: `Show the state of a node: whether it can commit and why not, its role in a cluster, disk, totals, alarms, the consumer
groups furthest behind and the queues with the most pending messages.

Exits 5 when the node is not healthy, 2 when it does not answer. --watch repeats until it is interrupted; with
--exit-when-healthy until the node is healthy, whether it answers before or not, and exits 5 after --timeout.`}
	again := cmd.Flags().Bool("watch", false, "repeat")
	until := cmd.Flags().Bool("exit-when-healthy", false, "repeat until the node is healthy")
	pause := cmd.Flags().Duration("interval", 2*time.Second, "time between two looks")
	timeout := cmd.Flags().Duration("timeout", 0, "with --exit-when-healthy: give up after this time; 0 is never")
	return remote.Command(s, cmd, "json", statusColumns, func(c *remote.Conn, out *cli.Printer[status], _ []string) error {
		if err := interval("interval", *pause); err != nil {
			return err
		}
		w := watch{c: c, out: out, again: *again, until: *until, timeout: *timeout}
		if *again || *until {
			return w.run(*pause)
		}
		st, err := look(c)
		if err != nil {
			return err
		}
		if err := showStatus(c, out, st, out.One); err != nil || st.Healthy {
			return err
		}
		return cli.Exit(cli.Findings)
	})
}

// watch looks again and again.
type watch struct {
	c   *remote.Conn
	out *cli.Printer[status]
	// again is --watch, until is --exit-when-healthy.
	again, until bool
	timeout      time.Duration
}

func (w *watch) run(pause time.Duration) error {
	begun := time.Now()
	return every(w.c.Ctx, pause, func() (more bool, err error) {
		st, err := look(w.c)
		if err != nil && (!w.until || cli.Code(err) != cli.Server) {
			return false, err
		}
		healthy := err == nil && st.Healthy
		if err == nil && (w.again || healthy) {
			clearScreen(w.c.Streams, w.again)
			if err := showStatus(w.c, w.out, st, w.out.Add); err != nil {
				return false, err
			}
		}
		switch {
		case !w.until:
			return true, nil
		case healthy:
			return false, nil
		case w.timeout > 0 && time.Since(begun) >= w.timeout:
			return false, cli.Errorf(cli.Findings, "%s is not healthy after %v", w.c.URL, w.timeout)
		}
		return true, nil
	})
}

// look asks the node for everything. A node that is not ready answers less.
func look(c *remote.Conn) (*status, error) {
	st := &status{URL: c.URL, Alarms: []alarm{}, Members: []memberRow{}, Groups: []groupLag{}, Queues: []queueLine{}}
	if err := st.readiness(c); err != nil {
		return nil, err
	}
	if st.Phase != nil && !st.Ready {
		return st, nil // it has no engine yet that could tell more
	}
	if err := st.node(c); err != nil {
		return nil, err
	}
	if err := st.totals(c); err != nil {
		return nil, err
	}
	lag, err := lagOf(c, url.Values{"limit": {"1"}})
	if err != nil {
		return nil, err
	}
	st.Groups = append(st.Groups, lag.Groups[:min(shown, len(lag.Groups))]...)
	queues, err := queueLines(c)
	if err != nil {
		return nil, err
	}
	sortQueues(queues, "pending")
	st.Queues = append(st.Queues, queues[:min(shown, len(queues))]...)
	return st, nil
}

// readiness is what the node says without being asked by anybody in particular.
func (st *status) readiness(c *remote.Conn) error {
	var ready struct {
		Ready       *bool
		Why, Phase  *string
		Role        string
		Progress    float64
		StorageFull bool
	}
	if _, err := c.Call(c.Ctx, remote.Request{Method: http.MethodGet, Path: "/readyz", AnyStatus: true}, &ready); err != nil {
		return err
	}
	if ready.Ready == nil {
		return stranger(c, "ready")
	}
	st.Ready, st.Why, st.Phase, st.Role, st.Progress, st.StorageFull = *ready.Ready, ready.Why, ready.Phase, ready.Role, ready.Progress,
		ready.StorageFull
	st.Healthy = st.Ready
	var health struct{ Version string }
	if _, err := c.Call(c.Ctx, remote.Request{Method: http.MethodGet, Path: "/health", AnyStatus: true}, &health); err != nil {
		return err
	}
	st.Version = health.Version
	return nil
}

// node is what the node's own checklist says of the node.
func (st *status) node(c *remote.Conn) error {
	d, err := diagnosisOf(c, url.Values{"symptom": {"node_down"}})
	if err != nil {
		return err
	}
	st.Node, st.Leader, st.Term, st.Applied, st.DiskUsedPercent = d.Node.Node, d.Node.Leader, d.Node.Term, d.Node.Applied, d.Node.DiskUsedPercent
	st.Quorum = d.Node.Quorum
	if st.Node != nil {
		m, err := membersOf(c)
		if err != nil {
			return err
		}
		st.Members = append(st.Members, m...)
	}
	for _, f := range d.Findings {
		st.Alarms = append(st.Alarms, alarm{f.Cause, f.Severity, f.NextStep})
		st.Healthy = st.Healthy && f.Severity != "critical"
	}
	return nil
}

func (st *status) totals(c *remote.Conn) error {
	var o struct {
		Queues, Partitions uint64
		Messages           struct{ Total, Pending, Processing, DeadLetter uint64 }
		Lag                struct{ Total, Max uint64 }
		Throughput         struct{ IngestedPerSecond, ProcessedPerSecond float64 }
		StatsAge           *int64
		Timestamp          string
	}
	if err := get(c, "/api/v1/resources/overview", nil, &o); err != nil {
		return err
	}
	if o.Timestamp == "" {
		return stranger(c, "timestamp")
	}
	st.Totals = &totals{o.Queues, o.Partitions, o.Messages.Total, o.Messages.Pending, o.Messages.Processing, o.Messages.DeadLetter,
		o.Lag.Total, o.Lag.Max, o.Throughput.IngestedPerSecond, o.Throughput.ProcessedPerSecond, o.StatsAge}
	return nil
}

// showStatus prints a status: for people as lines and two tables, elsewhere whole.
func showStatus(c *remote.Conn, out *cli.Printer[status], st *status, whole func(status) error) error {
	if !out.Table() {
		return whole(*st)
	}
	out.Skip()
	pairs := [][2]string{{"node", st.URL}, {"healthy", yesNo(st.Healthy)}, {"why", text(st.Why)}, {"version", st.Version}, {"role", st.Role}}
	if st.Node != nil {
		pairs = append(pairs, [2]string{"number, leader", text(st.Node) + ", " + text(st.Leader)}, [2]string{"quorum", text(st.Quorum)})
	}
	if st.Phase != nil && !st.Ready {
		pairs = append(pairs, [2]string{"starting", *st.Phase + " " + rate(100*st.Progress) + " %"})
	}
	pairs = append(pairs, [2]string{"disk used", percent(st.DiskUsedPercent)})
	if t := st.Totals; t != nil {
		ago := "-"
		if t.CountedSecondsAgo != nil {
			ago = seconds(*t.CountedSecondsAgo) + " ago"
		}
		pairs = append(pairs, [2]string{"counted", ago}, [2]string{"queues, partitions", count(t.Queues) + ", " + count(t.Partitions)},
			[2]string{"messages", count(t.Messages)}, [2]string{"pending, processing", count(t.Pending) + ", " + count(t.Processing)},
			[2]string{"dead letters", count(t.DeadLetters)}, [2]string{"pushed, delivered a second", rate(t.PushedPerSecond) + ", " + rate(t.DeliveredPerSecond)})
	}
	for _, a := range st.Alarms {
		pairs = append(pairs, [2]string{"alarm, " + a.Severity, a.Cause + ": " + a.NextStep})
	}
	lines := cli.Print(c.Invocation, []cli.Column[[2]string]{
		{Head: "what", Cell: func(r [2]string) string { return r[0] }}, {Head: "value", Cell: func(r [2]string) string { return r[1] }}})
	if err := errors.Join(lines.AddAll(pairs), lines.Close()); err != nil {
		return err
	}
	return errors.Join(section(c, memberColumns, st.Members), section(c, groupColumns, st.Groups), section(c, queueColumns, st.Queues))
}

// section prints a table of its own, unless it is empty.
func section[R any](c *remote.Conn, columns []cli.Column[R], rows []R) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(c.Out)
	out := cli.Print(c.Invocation, columns)
	return errors.Join(out.AddAll(rows), out.Close())
}

func percent(v *float64) string {
	if v == nil {
		return "-"
	}
	return rate(*v) + " %"
}
