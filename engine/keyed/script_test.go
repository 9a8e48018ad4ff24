package keyed

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// script plays one store: overlays, flushes, records, crashes. Keys are written family:name.
type script struct {
	t            *testing.T
	dir          string
	s            *Store
	expect       *Manifest
	live, frozen *Overlay
	at           uint64
	flushed      *Flushed
	state        model   // after all that was applied
	digests      Digests // of the state when it was frozen
}

// Goal: the life of checkpoints, readable as a play. See testdata/script.
func TestScript(t *testing.T) {
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		p := &script{t: t, dir: t.TempDir(), state: model{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			p.t = t
			return p.run(d)
		})
		if p.s != nil {
			_ = p.s.Close()
		}
	})
}

func (p *script) run(d *datadriven.TestData) string {
	switch d.Cmd {
	case "open":
		return p.open()
	case "apply":
		return p.apply(d.Input)
	case "freeze":
		p.frozen, p.live, p.digests = p.live, NewOverlay(OverlayLimits{}), p.state.digests()
		return fmt.Sprintf("%d rows frozen\n", p.frozen.Len())
	case "flush":
		return p.flush(d)
	case "record":
		return p.record(d)
	case "crash":
		crash(p.t, p.s)
		p.s = nil
		return ""
	case "close":
		err := p.s.Close()
		p.s = nil
		return orError("", err)
	case "read":
		var c uint64
		d.ScanArgs(p.t, "c", &c)
		return p.read(c)
	case "view":
		return p.view()
	case "delta":
		return p.delta(d)
	}
	d.Fatalf(p.t, "unknown command %s", d.Cmd)
	return ""
}

func orError(text string, err error) string {
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	return text
}

func (p *script) open() string {
	s, err := Open(Options{Dir: p.dir, Expect: p.expect})
	if err != nil {
		return orError("", err)
	}
	p.s, p.live, p.frozen, p.flushed, p.at = s, NewOverlay(OverlayLimits{}), nil, nil, 0
	if p.expect != nil {
		p.at = p.expect.Version
	}
	r := s.Report()
	return fmt.Sprintf("at=%d fresh=%v unclean=%v cut=%d\n", p.at, r.Fresh, r.Unclean, r.CutFlushVersion)
}

func scriptKey(text string) []byte {
	for f, name := range familyNames {
		if rest, ok := strings.CutPrefix(text, name+":"); ok {
			return append([]byte{byte(f)}, rest...)
		}
	}
	return []byte(text)
}

func scriptName(key []byte) string { return fmt.Sprintf("%v:%s", FamilyOf(key), key[1:]) }

func (p *script) apply(input string) string {
	for line := range strings.Lines(input) {
		f := strings.Fields(line)
		row := Row{Key: scriptKey(f[1]), Tombstone: f[0] == "del"}
		if f[0] == "put" {
			row.Value = []byte(f[2])
			p.state[string(row.Key)] = f[2]
		} else {
			delete(p.state, string(row.Key))
		}
		if err := replaceRow(p.live, row); err != nil {
			return orError("", err)
		}
	}
	return fmt.Sprintf("overlay: %d rows\n", p.live.Len())
}

func (p *script) flush(d *datadriven.TestData) string {
	var c uint64
	d.ScanArgs(p.t, "c", &c)
	f, err := p.s.FlushAt(context.Background(), c, p.digests, p.frozen.Rows())
	if err != nil {
		return orError("", err)
	}
	p.flushed = f
	return fmt.Sprintf("version %d, %d rows in state\n", f.Manifest().Version, f.Manifest().Digests.Rows())
}

func (p *script) record(d *datadriven.TestData) string {
	var older uint64
	d.ScanArgs(p.t, "older", &older)
	if err := p.flushed.Recorded(older); err != nil {
		return orError("", err)
	}
	m := p.flushed.Manifest()
	p.expect, p.at, p.frozen = &m, m.Version, nil
	return fmt.Sprintf("recorded %d, discard below %d\n", p.at, p.s.Metrics().DiscardVersion)
}

func (p *script) read(c uint64) string {
	var b strings.Builder
	err := p.s.scan(context.Background(), c, nil, nil, func(key, value []byte) (bool, error) {
		fmt.Fprintf(&b, "%s = %s\n", scriptName(key), value)
		return true, nil
	})
	return orError(b.String(), err)
}

func (p *script) view() string {
	var b strings.Builder
	v := NewView(p.live, p.frozen, p.s, p.at)
	for _, f := range slices.Sorted(maps.Keys(familyNames)) {
		if !f.Valid() {
			continue
		}
		err := v.ScanPrefix([]byte{byte(f)}, nil, 100, func(key, value []byte) bool {
			fmt.Fprintf(&b, "%s = %s\n", scriptName(key), value)
			return true
		})
		if err != nil {
			return orError("", err)
		}
	}
	return b.String()
}

func (p *script) delta(d *datadriven.TestData) string {
	var base, at uint64
	d.ScanArgs(p.t, "base", &base)
	d.ScanArgs(p.t, "at", &at)
	var b strings.Builder
	info, err := WriteDelta(&b, base, at, p.digests, p.frozen.Rows())
	if err != nil {
		return orError("", err)
	}
	out := fmt.Sprintf("%s: %d rows, %d tombstones, %d bytes\n", DeltaName(at), info.Rows, info.Tombstones, info.Bytes)
	fr, err := OpenFlat(strings.NewReader(b.String()), int64(b.Len()), DeltaName(at))
	if err != nil {
		return orError("", err)
	}
	for row, err := range fr.Rows() {
		switch {
		case err != nil:
			return orError("", err)
		case row.Tombstone:
			out += fmt.Sprintf("%s gone\n", scriptName(row.Key))
		default:
			out += fmt.Sprintf("%s = %s\n", scriptName(row.Key), row.Value)
		}
	}
	return out
}
