package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"queen/bench/internal/histo"
)

// Report is what one run of one program measured.
type Report struct {
	Program    string  `json:"program"`
	Conditions string  `json:"conditions"`
	Values     []Value `json:"values"`
	// Notes are what was seen beside numbers, a line each.
	Notes []string `json:"notes,omitempty"`
	// Violations are broken promises; a run with any exits with an error.
	Violations []string `json:"violations,omitempty"`
}

// Value is one number.
type Value struct {
	Name string  `json:"name"`
	Unit string  `json:"unit,omitempty"`
	N    float64 `json:"n"`
}

// Add notes a number.
func (r *Report) Add(name string, n float64, unit string) {
	r.Values = append(r.Values, Value{Name: name, Unit: unit, N: n})
}

// Latency notes p50, p99 and p99.9 of h in microseconds.
func (r *Report) Latency(name string, h *histo.Histogram) {
	for _, p := range []struct {
		suffix string
		at     float64
	}{{"p50", 50}, {"p99", 99}, {"p99.9", 99.9}} {
		r.Add(name+" "+p.suffix, micros(h.Percentile(p.at)), "us")
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Note notes what was seen.
func (r *Report) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Violate notes a broken promise.
func (r *Report) Violate(format string, args ...any) {
	r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
}

// Get returns a number by name.
func (r *Report) Get(name string) (float64, bool) {
	for _, v := range r.Values {
		if v.Name == name {
			return v.N, true
		}
	}
	return 0, false
}

// Print writes the report: lines, or one JSON object.
func (r *Report) Print(w io.Writer, asJSON bool) {
	if asJSON {
		_ = json.NewEncoder(w).Encode(r)
		return
	}
	fmt.Fprintf(w, "%s: %s\n", r.Program, r.Conditions)
	for _, v := range r.Values {
		fmt.Fprintf(w, "  %-34s %14s %s\n", v.Name, Number(v.N), v.Unit)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "  note: %s\n", n)
	}
	for _, v := range r.Violations {
		fmt.Fprintf(w, "  VIOLATION: %s\n", v)
	}
}

// Number is n with as many digits as mean something.
func Number(n float64) string {
	switch {
	case n != n:
		return "-"
	case n >= 1000 || n <= -1000 || n == float64(int64(n)):
		return fmt.Sprintf("%.0f", n)
	case n >= 10 || n <= -10:
		return fmt.Sprintf("%.1f", n)
	default:
		return fmt.Sprintf("%.3f", n)
	}
}

// Exit prints the report and ends the process: 0, or 1 when a promise was broken.
func (r *Report) Exit(asJSON bool) {
	r.Print(os.Stdout, asJSON)
	if len(r.Violations) > 0 {
		os.Exit(1)
	}
	os.Exit(0)
}

// Fail ends the process because the measurement could not be made.
func Fail(program string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
	os.Exit(2)
}

// TempDir makes a directory for data below dir, which is created. The caller removes it.
func TempDir(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	out, err := os.MkdirTemp(dir, "data-")
	if err != nil {
		return "", err
	}
	return filepath.Abs(out)
}
