package idruns

import (
	"math"
	"slices"

	"queen/engine/format"
	"queen/engine/logstore/runfile"
)

// job is a merge under way. It is a user of its inputs.
type job struct {
	inputs []*run
	rows   *merging
	w      *idWriter
}

// Step does background work for about that many rows: merges whose turn comes at a later mark, the
// smallest first, and filters that are missing. It reports whether there may be more to do. A caller
// that never calls it is answered the same; its Adds take longer.
func (s *Set) Step(rows int) (again bool, err error) {
	l := s.acquire()
	defer l.release()
	inputs := s.ahead(l.runs)
	if inputs == nil {
		return s.buildFilter(l, rows)
	}
	name := s.outputName(inputs)
	r, err := s.advance(name, inputs, rows)
	if k := damagedInput(inputs, err); k >= 0 && slices.Contains(l.runs, inputs[k]) {
		runs := slices.Clone(l.runs)
		at := slices.Index(runs, inputs[k])
		runs[at] = condemned(runs[at], err)
		s.swap(runs, l.clearTo)
		s.tidy()
	}
	if err != nil {
		return false, err
	}
	if r != nil {
		s.ready[name] = r
	}
	return true, nil
}

// ahead returns the runs of the next merge that will come due, as things stand, and is not done. It
// looks at the runs as if what is done had come due already.
func (s *Set) ahead(runs []*run) []*run {
	runs = slices.Clone(runs)
	for {
		i, j := pick(runs, s.last.W-s.last.Horizon, func(a aligned) bool { return a.last <= s.last.Number })
		if i == j {
			return nil
		}
		r := s.ready[s.outputName(runs[i:j])]
		if r == nil {
			return runs[i:j]
		}
		runs = slices.Replace(runs, i, j, r)
	}
}

func (s *Set) outputName(inputs []*run) string {
	return runName(s.opts.Group, inputs[0].first, inputs[len(inputs)-1].last)
}

// merged returns the run that the inputs become, finishing what Step has begun.
func (s *Set) merged(inputs []*run) (*run, error) {
	name := s.outputName(inputs)
	if r := s.ready[name]; r != nil {
		delete(s.ready, name)
		return r, nil
	}
	return s.advance(name, inputs, math.MaxInt)
}

// advance merges some rows; the run is returned when it is done.
func (s *Set) advance(name string, inputs []*run, rows int) (*run, error) {
	j := s.jobs[name]
	if j != nil && !slices.Equal(j.inputs, inputs) {
		s.cancel(name)
		j = nil
	}
	if j == nil {
		var err error
		if j, err = s.start(inputs); err != nil {
			return nil, err
		}
		s.jobs[name] = j
	}
	for rows > 0 {
		n, err := j.rows.stretch(j.w.next)
		if err != nil {
			s.cancel(name)
			return nil, err
		}
		if n == 0 {
			j.release()
			delete(s.jobs, name)
			return j.w.finish()
		}
		rows -= n
	}
	return nil, nil
}

func (s *Set) start(inputs []*run) (*job, error) {
	j := &job{inputs: slices.Clone(inputs)}
	var err error
	if j.rows, err = newMerging(inputs); err != nil {
		return nil, err
	}
	var bounds format.IDBounds
	rows := uint64(0)
	for _, r := range inputs {
		bounds.AddRun(&r.file.Head.IDs)
		rows += r.file.Trailer.Rows
	}
	if j.w, err = s.create(inputs[0].first, inputs[len(inputs)-1].last, bounds.Layout(), rows); err != nil {
		return nil, err
	}
	for _, r := range inputs {
		r.file.Retain()
	}
	return j, nil
}

func (j *job) release() {
	for _, r := range j.inputs {
		r.release()
	}
}

func (s *Set) cancel(name string) {
	j := s.jobs[name]
	delete(s.jobs, name)
	j.w.w.Abort()
	j.release()
}

// cancelWith ends the merges that a run takes part in.
func (s *Set) cancelWith(r *run) {
	for name, j := range s.jobs {
		if slices.Contains(j.inputs, r) {
			s.cancel(name)
		}
	}
}

// tidy lets go, after an Add, of merges whose inputs do not count any more, and of filters over the
// budget.
func (s *Set) tidy() {
	l := s.acquire()
	defer l.release()
	for name, r := range s.ready {
		if !l.covers(r) {
			delete(s.ready, name)
			r.release()
		}
	}
	for name, j := range s.jobs {
		if slices.ContainsFunc(j.inputs, func(r *run) bool { return !slices.Contains(l.runs, r) && s.ready[r.name] != r }) {
			s.cancel(name)
		}
	}
	s.trim(l)
}

// covers reports whether runs that count have every chunk of r between them, two of them at least.
func (l *list) covers(r *run) bool {
	i := slices.IndexFunc(l.runs, func(o *run) bool { return o.first == r.first })
	j := slices.IndexFunc(l.runs, func(o *run) bool { return o.last == r.last })
	return i >= 0 && j > i
}

// trim drops filters, oldest runs first, until the rest is within the budget. A filter made ahead for
// a run that does not count yet is not counted: its inputs' are, and go when it comes.
func (s *Set) trim(l *list) {
	left := s.opts.FilterBytes
	for _, r := range slices.Backward(l.runs) {
		f := r.filter.Load()
		if f == nil {
			continue
		}
		if left -= f.bytes(); left < 0 {
			r.filter.Store(nil)
		}
	}
}

// filterJob makes a missing filter.
type filterJob struct {
	r     *run
	scan  *runfile.Scanner[format.IDBlock]
	maker *sieveMaker
}

// buildFilter works on the filter of the newest run that has none and whose filter fits the budget.
func (s *Set) buildFilter(l *list, rows int) (again bool, err error) {
	if s.build != nil && !slices.Contains(l.runs, s.build.r) {
		s.build = nil
	}
	if s.build == nil {
		r := s.missing(l)
		if r == nil {
			return false, nil
		}
		s.build = &filterJob{r: r, scan: r.file.Scan(0), maker: newSieveMaker(r.file.Trailer.Rows)}
	}
	b := s.build
	for rows > 0 {
		block, err := b.scan.Next()
		if err != nil {
			s.build = nil
			return false, b.r.damage(err)
		}
		if block == nil {
			s.build = nil
			f := b.maker.finish()
			b.r.filter.Store(f)
			b.r.plain = f == nil
			s.trim(l)
			return true, nil
		}
		for i := range block.Len() {
			b.maker.add(block.Spread(i))
		}
		rows -= block.Len()
	}
	return true, nil
}

// missing is the newest run without a filter for which there is room: what newer ones take, and what
// its own will, is within the budget.
func (s *Set) missing(l *list) *run {
	left := s.opts.FilterBytes
	for _, r := range slices.Backward(l.runs) {
		if r.file == nil || r.plain {
			continue
		}
		f := r.filter.Load()
		if f != nil {
			left -= f.bytes()
			continue
		}
		if left -= sieveBytes(r.file.Trailer.Rows); left < 0 {
			return nil
		}
		return r
	}
	return nil
}
