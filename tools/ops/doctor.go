package ops

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/contexts"
	"queen/tools/remote"
)

// diagnosis is what GET /api/v1/diagnose says.
type diagnosis struct {
	Node struct {
		Role            string
		Quorum          *bool
		Node, Leader    *uint64
		Term, Applied   uint64
		DiskUsedPercent *float64
	}
	Findings []struct {
		Cause, Severity, Title          string
		Queue, Group, Partition, Worker *string
		Partitions                      int
		Lag                             uint64
		Evidence                        []string
		NextStep                        string
	}
	Checks []struct{ Name, Outcome string }
}

func diagnosisOf(c *remote.Conn, query url.Values) (*diagnosis, error) {
	var d diagnosis
	if err := get(c, "/api/v1/diagnose", query, &d); err != nil {
		return nil, err
	}
	return &d, errors.Join(expect(c, d.Findings, "findings"), expect(c, d.Checks, "checks"))
}

// Finding is a row of a doctor's report.
type finding = contexts.Finding

// fine is the severity of a check that found nothing, skipped that of one that could not be made.
const (
	fine    = "ok"
	skipped = "skipped"
)

// doctor goes through a checklist.
type doctor struct {
	c       *remote.Conn
	version string
	all     []finding
	// health is what the node said without being asked by anybody in particular.
	health struct{ Version string }
}

// bounds of a doctor's judgement.
const (
	skewMax     = 5 * time.Second
	growingOver = 15 * time.Minute
)

func doctorCommand(s cli.Streams, version string) *cobra.Command {
	cmd := &cobra.Command{Use: "doctor", Short: "Go through a checklist and say what is wrong, why, and what to do", Args: cobra.NoArgs,
		Long: `Go through a fixed checklist: the file of contexts, whether the node can be reached, its version, its clock against this
machine's, whether the credential is taken, whether it can commit, its disk and alarms, consumer groups that are stuck and
why, leases held long, queues that nobody reads, dead letters and whether they grow, switches, load. Changes nothing.

Prints a row for every check: ok, or findings with severity, evidence and next step. Exits 5 on findings that are critical
or warnings; info is not counted.`}
	quiet := cmd.Flags().Bool("findings", false, "leave out checks that found nothing")
	return remote.Command(s, cmd, "json", contexts.Columns, func(c *remote.Conn, out *cli.Printer[finding], _ []string) error {
		d := &doctor{c: c, version: version}
		d.run()
		if c.Ctx.Err() != nil {
			return cli.Exit(cli.Interrupted)
		}
		if *quiet {
			d.all = slices.DeleteFunc(d.all, func(f finding) bool { return f.Severity == fine || f.Severity == skipped })
		}
		if err := out.AddAll(d.all); err != nil {
			return err
		}
		return contexts.Exit(d.all)
	})
}

// run makes every check that the ones before leave sense to.
func (d *doctor) run() {
	d.note("contexts", contexts.Check(d.c.Streams)...)
	rest := []string{"version", "clock", "auth", "ready", "diagnosis", "dead_letters_growing"}
	if !d.note("reachable", d.reachable()...) {
		d.skip(rest...)
		return
	}
	d.note("version", d.versions()...)
	auth, clock := d.auth()
	d.note("clock", clock...)
	readable := d.note("auth", auth...)
	ready := d.note("ready", d.ready()...)
	if !readable || !ready {
		d.skip("diagnosis", "dead_letters_growing")
		return
	}
	d.diagnose()
	d.note("dead_letters_growing", d.growing()...)
}

// note adds what a check found, and tells whether that was nothing bad.
func (d *doctor) note(check string, found ...finding) (well bool) {
	if len(found) == 0 {
		d.all = append(d.all, finding{Check: check, Severity: fine, Evidence: []string{}})
		return true
	}
	well = true
	for _, f := range found {
		f.Check = check
		if f.Evidence == nil {
			f.Evidence = []string{}
		}
		d.all = append(d.all, f)
		well = well && f.Severity != contexts.Critical
	}
	return well
}

func (d *doctor) skip(checks ...string) {
	for _, k := range checks {
		d.all = append(d.all, finding{Check: k, Severity: skipped, Evidence: []string{}, NextStep: "Mend what stands above first."})
	}
}

// failed is the finding of a call that failed.
func failed(title, next string, err error) []finding {
	return []finding{{Severity: contexts.Critical, Title: title, Evidence: strings.Split(err.Error(), "\n"), NextStep: next}}
}

func (d *doctor) reachable() []finding {
	if _, err := d.c.Call(d.c.Ctx, remote.Request{Method: http.MethodGet, Path: "/health", AnyStatus: true}, &d.health); err != nil {
		return failed("The node can not be reached", "Start it, or name its address with --url, --context or QUEEN_URL.", err)
	}
	if d.health.Version == "" {
		return failed("Something else than a node answers", "Name the address of its HTTP API.", errors.New(d.c.URL+"/health names no version"))
	}
	return nil
}

func (d *doctor) versions() []finding {
	if d.health.Version == d.version {
		return nil
	}
	return []finding{{Severity: contexts.Warning, Title: "This program and the node are of different versions",
		Evidence: []string{"node " + d.health.Version, "program " + d.version}, NextStep: "Use the program of the node's version."}}
}

// auth asks for something that needs a credential where any is needed, and reads the node's clock from the answer.
func (d *doctor) auth() (auth, clock []finding) {
	var o struct{ Timestamp string }
	before := time.Now()
	err := get(d.c, "/api/v1/resources/overview", nil, &o)
	after := time.Now()
	switch {
	case err != nil && cli.Code(err) == cli.Auth:
		return failed("The node does not take the credential", "Set QUEEN_TOKEN, --token-from, or the token of the context; it needs the role read-only.",
			err), []finding{{Severity: skipped}}
	case err != nil: // the check of readiness says why
		return nil, []finding{{Severity: skipped, Evidence: []string{err.Error()}}}
	}
	at, err := time.Parse(time.RFC3339Nano, o.Timestamp)
	if err != nil {
		return nil, []finding{{Severity: skipped, Evidence: []string{err.Error()}}}
	}
	var skew time.Duration
	switch {
	case at.Before(before):
		skew = before.Sub(at)
	case at.After(after):
		skew = at.Sub(after)
	}
	if skew < skewMax {
		return nil, nil
	}
	return nil, []finding{{Severity: contexts.Warning, Title: "The node's clock is not this machine's",
		Evidence: []string{"node " + o.Timestamp, "here " + before.UTC().Format(time.RFC3339Nano), "apart by " + skew.Round(time.Millisecond).String()},
		NextStep: "Have both follow a time server: leases, delays and retention go by the node's clock."}}
}

func (d *doctor) ready() []finding {
	var r struct {
		Ready    bool
		Draining bool
		Why      *string
		Phase    *string
	}
	if _, err := d.c.Call(d.c.Ctx, remote.Request{Method: http.MethodGet, Path: "/readyz", AnyStatus: true}, &r); err != nil {
		return failed("The node does not say whether it is ready", "Ask again.", err)
	}
	if r.Ready {
		return nil
	}
	if r.Draining { // what keeps it from writing besides is for the checklist
		return []finding{{Severity: contexts.Warning, Title: "The node drains", Evidence: []string{"why: " + text(r.Why)},
			NextStep: "End it once the node is to be sent calls again: queen cluster drain NODE --undo."}}
	}
	f := finding{Severity: contexts.Critical, Title: "The node can not commit", Evidence: []string{"why: " + text(r.Why)},
		NextStep: "Look at the reason; a node that starts becomes ready by itself."}
	if r.Phase != nil {
		f.Evidence = append(f.Evidence, "phase: "+*r.Phase)
	}
	return []finding{f}
}

// diagnose adds the node's own checklist, a row for each of its checks.
func (d *doctor) diagnose() {
	r, err := diagnosisOf(d.c, nil)
	if err != nil {
		d.note("diagnosis", failed("The node's checklist failed", "Ask again; the log of the node may say more.", err)...)
		return
	}
	for _, k := range r.Checks {
		if k.Outcome == fine {
			d.note(k.Name)
		}
	}
	for _, f := range r.Findings {
		d.note(f.Cause, finding{Severity: f.Severity, Title: f.Title, Subject: subject(f.Queue, f.Group, f.Partition, f.Worker),
			Evidence: f.Evidence, NextStep: f.NextStep})
	}
}

// subject names what a finding is about.
func subject(names ...*string) string {
	var known []string
	for i, what := range []string{"queue", "group", "partition", "worker"} {
		if names[i] != nil {
			known = append(known, fmt.Sprintf("%s %q", what, *names[i]))
		}
	}
	return strings.Join(known, ", ")
}

// growing looks for messages that were given up a short while ago.
func (d *doctor) growing() []finding {
	var a struct{ Total uint64 }
	since := time.Now().Add(-growingOver).UTC().Format(time.RFC3339)
	if err := get(d.c, "/api/v1/dlq", url.Values{"from": {since}, "limit": {"1"}}, &a); err != nil {
		return failed("Dead letters can not be counted", "Ask again.", err)
	}
	if a.Total == 0 {
		return nil
	}
	return []finding{{Severity: contexts.Warning, Title: "Dead letters grow", Evidence: []string{fmt.Sprintf("%d in the last %v", a.Total, growingOver)},
		NextStep: "Look at them with queen dlq list, mend the cause, then replay or purge them."}}
}
