package contexts

import (
	"strings"

	"queen/tools/cli"
)

// Severities of a Finding. Critical and Warning end a check with cli.Findings.
const (
	Critical = "critical"
	Warning  = "warning"
	Info     = "info"
)

// Finding is what a check found. Names that others choose are in Subject only.
type Finding struct {
	// Check is the row of the checklist.
	Check    string `json:"check"`
	Severity string `json:"severity"`
	Title    string `json:"title"`
	// Subject is what it is about: a file, a context, a queue with its group and partition; "" for the node.
	Subject string `json:"subject,omitempty"`
	// Evidence is what it rests on; NextStep is what to do.
	Evidence []string `json:"evidence"`
	NextStep string   `json:"nextStep"`
}

// Columns show a Finding.
var Columns = []cli.Column[Finding]{
	{Head: "severity", Cell: func(f Finding) string { return f.Severity }, Tone: func(f Finding) cli.Tone { return tones[f.Severity] },
		Help: "critical, warning, info or ok; critical and warning exit 5"},
	{Head: "check", Cell: func(f Finding) string { return f.Check }, Key: true, Help: "the row of the checklist"},
	{Head: "title", Cell: func(f Finding) string { return f.Title }},
	{Head: "subject", Cell: func(f Finding) string { return f.Subject }, Help: "what it is about"},
	{Head: "evidence", Cell: func(f Finding) string { return strings.Join(f.Evidence, "; ") }},
	{Head: "next step", Cell: func(f Finding) string { return f.NextStep }, Wide: true},
}

var tones = map[string]cli.Tone{Critical: cli.Bad, Warning: cli.Warn, "ok": cli.Good}

// Exit is how a check ends that printed its findings.
func Exit(all []Finding) error {
	for i := range all {
		if all[i].Severity == Critical || all[i].Severity == Warning {
			return cli.Exit(cli.Findings)
		}
	}
	return nil
}
