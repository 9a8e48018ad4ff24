package ops

import (
	"bytes"
	"io"
	"maps"
	"math"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

// sample is one value of a family. A histogram has those that its text form has: _bucket, _sum and _count.
type sample struct {
	Name   string            `json:"name"`
	Type   string            `json:"type"`
	Labels map[string]string `json:"labels"`
	// Value is a text where JSON has no number for it: NaN, +Inf, -Inf.
	Value any `json:"value"`
}

var sampleColumns = []cli.Column[sample]{
	{Head: "name", Cell: func(s sample) string { return s.Name }, Key: true},
	{Head: "labels", Cell: func(s sample) string {
		var all []string
		for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
			all = append(all, k+"="+strconv.Quote(s.Labels[k]))
		}
		return strings.Join(all, ",")
	}},
	{Head: "value", Cell: func(s sample) string {
		if v, ok := s.Value.(float64); ok {
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
		text, _ := s.Value.(string)
		return text
	}},
	{Head: "type", Cell: func(s sample) string { return s.Type }, Wide: true, Help: "counter, gauge, histogram, summary or untyped"},
}

func metricsCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "metrics", Short: "Print a node's metrics", Args: cobra.NoArgs,
		Long: `Print a node's metrics, a row for each value. --family takes names and patterns of shells, as queen_raft_*; exits 4 when
nothing matches. --raw prints the text that Prometheus would read.`}
	families := cmd.Flags().StringArray("family", nil, "only these families, by name or pattern; may be given again")
	raw := cmd.Flags().Bool("raw", false, "print the text format, whatever -o says")
	return remote.Command(s, cmd, "json", sampleColumns, func(c *remote.Conn, out *cli.Printer[sample], _ []string) error {
		for _, f := range *families {
			if _, err := path.Match(f, ""); err != nil {
				return cli.Errorf(cli.Usage, "--family %s: %w", f, err)
			}
		}
		text, err := c.Bytes(c.Ctx, remote.Request{Method: http.MethodGet, Path: "/metrics/prometheus"})
		if err != nil {
			return err
		}
		parser := expfmt.NewTextParser(model.LegacyValidation)
		all, err := parser.TextToMetricFamilies(bytes.NewReader(text))
		if err != nil {
			return cli.Errorf(cli.Server, "%s answered something else than metrics: %w", c.URL, err)
		}
		if len(all) == 0 {
			return cli.Errorf(cli.Server, "%s answered something else than metrics: there is no family", c.URL)
		}
		maps.DeleteFunc(all, func(name string, _ *dto.MetricFamily) bool { return !wanted(*families, name) })
		if *raw {
			out.Skip()
			return printRaw(c.Out, all)
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if err := out.AddAll(samplesOf(all[name])); err != nil {
				return err
			}
		}
		if len(all) == 0 {
			return cli.Exit(cli.Nothing)
		}
		return nil
	})
}

func wanted(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// printRaw prints families as text.
func printRaw(out io.Writer, all map[string]*dto.MetricFamily) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, err := expfmt.MetricFamilyToText(out, all[name]); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		return cli.Exit(cli.Nothing)
	}
	return nil
}

// samplesOf makes rows of a family, as its text form has them.
func samplesOf(f *dto.MetricFamily) (all []sample) {
	kind := strings.ToLower(f.GetType().String())
	for _, m := range f.GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		add := func(suffix string, v float64, extra ...string) {
			own := labels
			if len(extra) > 0 {
				own = maps.Clone(labels)
				own[extra[0]] = extra[1]
			}
			all = append(all, sample{f.GetName() + suffix, kind, own, jsonNumber(v)})
		}
		switch {
		case m.Counter != nil:
			add("", m.Counter.GetValue())
		case m.Gauge != nil:
			add("", m.Gauge.GetValue())
		case m.Untyped != nil:
			add("", m.Untyped.GetValue())
		case m.Histogram != nil:
			for _, b := range m.Histogram.GetBucket() {
				add("_bucket", float64(b.GetCumulativeCount()), "le", number64(b.GetUpperBound()))
			}
			add("_sum", m.Histogram.GetSampleSum())
			add("_count", float64(m.Histogram.GetSampleCount()))
		case m.Summary != nil:
			for _, q := range m.Summary.GetQuantile() {
				add("", q.GetValue(), "quantile", number64(q.GetQuantile()))
			}
			add("_sum", m.Summary.GetSampleSum())
			add("_count", float64(m.Summary.GetSampleCount()))
		}
	}
	return all
}

func number64(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// jsonNumber is a number where JSON has one.
func jsonNumber(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return number64(v)
	}
	return v
}
