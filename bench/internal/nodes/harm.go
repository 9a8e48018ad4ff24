package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Done is harm that was done.
type Done struct {
	// Kind is its name, What what was done in words.
	Kind, What string
	// Bit is what shows that it bit, "" when nothing does.
	Bit string
	// Bitten are those of the kinds joined in it of which something shows that they bit. What one of them led to shows nothing of another.
	Bitten []string
}

// hit is what one kind did.
type hit struct {
	what string
	bits []string // what shows that it bit
	// struck are the nodes that must have felt it: what was seen of them counts.
	struck []int
	spared bool // there was nobody to strike
}

// kind is a way to do harm. What shows that it bit is what do itself finds, and that nodes it struck did not answer or found nobody who leads;
// only of a transfer, which does nothing else, it is a new term.
type kind struct {
	about string
	// do does it for a while and undoes it.
	do func(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error)
}

// Kinds are the names of all kinds of harm.
func Kinds() (all []string) {
	for name := range kinds {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// About says in words what a kind does.
func About(name string) string { return kinds[name].about }

// CheckKinds refuses names that are none; each may be several joined with +.
func CheckKinds(names []string) error {
	for _, all := range names {
		for _, name := range strings.Split(all, "+") {
			if _, ok := kinds[name]; !ok {
				return fmt.Errorf("nodes: there is no harm of the kind %q: %s", name, strings.Join(Kinds(), ", "))
			}
		}
	}
	return nil
}

// Harm does one kind of harm, or several joined with + at once, for a while, and undoes it. An error is what it should not have
// led to: a node that ended by itself, or does not come back.
func (c *Cluster) Harm(name string, r *rand.Rand, lasts time.Duration) (Done, error) {
	d := Done{Kind: name}
	if err := CheckKinds([]string{name}); err != nil {
		return d, err
	}
	together := strings.Split(name, "+")
	hits, errs := make([]hit, len(together)), make([]error, len(together))
	s := c.watch()
	var wg sync.WaitGroup
	for i, one := range together {
		own := rand.New(rand.NewPCG(r.Uint64(), uint64(i)))
		wg.Add(1)
		go func() {
			defer wg.Done()
			hits[i], errs[i] = kinds[one].do(c, own, lasts)
		}()
	}
	wg.Wait()
	for g := range c.o.Groups {
		c.Leader(g + 1) // what it led to counts as well
	}
	s.end()
	d.prove(together, hits, s)
	for i := range errs {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w", together[i], errs[i])
		}
	}
	return d, errors.Join(append(errs, c.Ended())...)
}

// prove says what was done and what shows that it bit.
func (d *Done) prove(kinds []string, hits []hit, s *sight) {
	var what, bits []string
	spared := true
	for i := range hits {
		h := &hits[i]
		what = append(what, h.what)
		if h.spared {
			continue
		}
		spared = false
		own := append(h.bits, s.of(h.struck)...)
		if kinds[i] == "transfer" {
			own = append(own, s.newTerms()...)
		}
		if len(own) > 0 {
			d.Bitten = append(d.Bitten, kinds[i])
		}
		bits = append(bits, own...)
	}
	d.What = strings.Join(what, "; ")
	if !spared {
		d.Bit = strings.Join(unique(append(bits, s.newTerms()...)), "; ")
	}
}

// unique leaves out what was said before.
func unique(all []string) []string {
	said := map[string]bool{}
	return slices.DeleteFunc(all, func(s string) bool {
		before := said[s]
		said[s] = true
		return before
	})
}

// Plague does the kinds over and over, one every so often, until ctx ends, and heals then. Each is told to out.
func (c *Cluster) Plague(ctx context.Context, names []string, every, lasts time.Duration, seed uint64, out io.Writer) (all []Done, err error) {
	if len(names) == 0 {
		return nil, errors.New("nodes: no kind of harm is named")
	}
	r := rand.New(rand.NewPCG(seed, 99))
	defer c.Heal()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return all, nil
		case <-time.After(every):
		}
		d, err := c.Harm(names[i%len(names)], r, lasts)
		all = append(all, d)
		fmt.Fprintln(out, d.String())
		if err != nil {
			return all, err
		}
	}
}

// String is a line about it.
func (d *Done) String() string {
	if d.Bit == "" {
		return fmt.Sprintf("%s: %s; nothing shows that it bit", d.Kind, d.What)
	}
	return fmt.Sprintf("%s: %s; %s", d.Kind, d.What, d.Bit)
}

// someLeader is the leader of a random raft group. When nobody leads it, since another kind has struck all that could, it is who was seen to
// lead last, so that the two kinds come together; -1 when nobody ever was.
func (c *Cluster) someLeader(r *rand.Rand) int {
	group := 1 + r.IntN(c.o.Groups)
	if i := c.Leader(group); i >= 0 {
		return i
	}
	return c.ledLast(group)
}

// some is any node.
func (c *Cluster) some(r *rand.Rand) int { return r.IntN(len(c.slots)) }

// take gives a node to the caller, who gives it back by busy.Unlock; nil when somebody else has it, it does not run or there is none.
func (c *Cluster) take(i int) *slot {
	if i < 0 {
		return nil
	}
	s := c.slots[i]
	if !s.busy.TryLock() {
		return nil
	}
	if s.running.Load() == nil {
		s.busy.Unlock()
		return nil
	}
	return s
}

// spared is what is told when there was nobody to strike.
func spared(lasts time.Duration) (hit, error) {
	time.Sleep(lasts)
	return hit{what: "nobody was struck: nobody led, or another kind was at it", spared: true}, nil
}
