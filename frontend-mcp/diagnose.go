package frontendmcp

import (
	"errors"

	"queen/engine/diagnosis"
)

// finding is one of diagnosis, with its names in answers.
type finding struct {
	Cause      string   `json:"cause"`
	Severity   string   `json:"severity" jsonschema:"critical, warning or info"`
	Title      string   `json:"title"`
	Queue      string   `json:"queue,omitempty"`
	Group      string   `json:"group,omitempty"`
	Partition  string   `json:"partition,omitempty" jsonschema:"the worst one"`
	Worker     string   `json:"worker,omitempty"`
	Partitions int      `json:"partitions,omitempty" jsonschema:"how many have this cause"`
	Lag        uint64   `json:"lag,omitempty"`
	Evidence   []string `json:"evidence"`
	NextStep   string   `json:"next_step"`
}

type checkRun struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome" jsonschema:"ok, found, or not_available"`
}

type diagnoseArgs struct {
	Symptom string `json:"symptom,omitempty" jsonschema:"backlog, not_delivered, duplicates, slow, node_down, disk or kafka; default all checks"`
	Queue   string `json:"queue,omitempty"`
	Group   string `json:"group,omitempty"`
}

type diagnosisAnswer struct {
	Meta
	Findings []finding  `json:"findings"`
	Checks   []checkRun `json:"checks_run"`
}

func diagnose(c *call, in diagnoseArgs) (out diagnosisAnswer, err error) {
	r, err := diagnosis.Run(c.ctx, c.engine, c.caller, c.f.now(), diagnosis.Request{Symptom: in.Symptom, Queue: in.Queue, Group: in.Group})
	if errors.Is(err, diagnosis.ErrSymptom) {
		return out, badArgument("symptom", err.Error())
	}
	if err != nil {
		return out, err
	}
	out.Meta = c.meta()
	out.Untrusted, out.Findings, out.Checks = true, []finding{}, []checkRun{}
	for i := range r.Checks {
		out.Checks = append(out.Checks, checkRun(r.Checks[i]))
	}
	for i := range r.Findings[:min(len(r.Findings), 100)] {
		f := &r.Findings[i]
		out.Findings = append(out.Findings, finding{f.Cause, f.Severity, f.Title, f.Queue, f.Group, f.Partition, f.Worker, f.Partitions, f.Lag,
			f.Evidence, f.NextStep})
	}
	out.Findings, _ = fit(c, out.Findings)
	c.cut(&out.Meta, len(r.Findings)-len(out.Findings), "name a queue or a group")
	return out, nil
}

// look is the sight of the tools that explain a backlog.
func (c *call) look(queue, group string) (*diagnosis.Sight, error) {
	return diagnosis.Look(c.ctx, c.engine, c.caller, c.f.now(), queue, group)
}
