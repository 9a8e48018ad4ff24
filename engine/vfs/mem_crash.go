package vfs

import (
	"cmp"
	"math/rand/v2"
	"path"
	"slices"
)

// CrashPolicy says which of the changes that were not synced a crash leaves on disk.
type CrashPolicy struct {
	kind crashKind
	seed uint64
}

type crashKind uint8

const (
	crashDrop crashKind = iota
	crashKeep
	crashRandom
)

// DropUnsynced loses everything that was not synced: the least a disk may hold.
func DropUnsynced() CrashPolicy { return CrashPolicy{kind: crashDrop} }

// KeepAll keeps everything: the process died but the machine did not.
func KeepAll() CrashPolicy { return CrashPolicy{kind: crashKeep} }

// RandomSubset keeps a part that depends on the seed and nothing else: of each pending write none, all, a head, a
// tail or any choice of its 512-byte sectors, in any order of overlapping writes; of the pending changes of a
// file's length the first few; of the pending names of each directory the first few, or any choice. A file that
// grew may be longer than what was kept of its bytes; the rest reads as zero.
func RandomSubset(seed uint64) CrashPolicy { return CrashPolicy{kind: crashRandom, seed: seed} }

// sectorBytes is what a disk writes whole or not at all.
const sectorBytes = 512

// Crash returns a file system that holds what a disk might hold if the power failed now. m is not changed and stays
// usable; the new one has the same capacity, no locks, no hook and no open files.
func (m *Mem) Crash(policy CrashPolicy) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := crasher{policy: policy, rng: rand.New(rand.NewPCG(policy.seed, 0x9e3779b97f4a7c15))}
	names := c.names(m)
	out := NewMem()
	out.capacity = m.capacity
	out.nextID = m.nextID
	moved := map[*inode]*inode{m.names["/"]: out.names["/"]}
	for _, p := range sortedNames(names) {
		old := names[p]
		n := moved[old]
		if n == nil {
			n = &inode{id: old.id, dir: old.dir}
			moved[old] = n
		}
		if p != "/" {
			n.links++
			out.names[p], out.durable[p] = n, n
		}
	}
	// Contents are drawn in the order of inode ids: a map's order would make the same seed give different disks.
	olds := make([]*inode, 0, len(moved))
	for old := range moved {
		olds = append(olds, old)
	}
	slices.SortFunc(olds, func(a, b *inode) int { return cmp.Compare(a.id, b.id) })
	for _, old := range olds {
		n := moved[old]
		n.cur = c.content(old)
		n.disk = n.cur.clone()
		out.used += n.cur.allocated()
	}
	return out
}

// crasher makes the decisions of one crash.
type crasher struct {
	policy CrashPolicy
	rng    *rand.Rand
}

func (c *crasher) coin() bool { return c.rng.IntN(2) == 0 }

// names decides which names exist. A name whose directory was lost is lost with it.
func (c *crasher) names(m *Mem) map[string]*inode {
	kept := map[string]*inode{}
	from := m.durable
	if c.policy.kind == crashKeep {
		from = m.names
	}
	for p, n := range from {
		kept[p] = n
	}
	if c.policy.kind == crashRandom {
		for _, change := range c.someNames(m.pending) {
			for _, e := range change.edits {
				applyName(kept, e)
			}
		}
	}
	for _, p := range sortedNames(kept) {
		if parent := kept[path.Dir(p)]; p != "/" && (parent == nil || !parent.dir) {
			delete(kept, p)
		}
	}
	return kept
}

// someNames chooses pending name changes: per directory a head of the list or, as often, any subset.
func (c *crasher) someNames(pending []*nameChange) []*nameChange {
	count := map[string]int{}
	var dirs []string
	for _, change := range pending {
		if count[change.dir]++; count[change.dir] == 1 {
			dirs = append(dirs, change.dir)
		}
	}
	limit := map[string]int{} // head length, or -1 for a subset
	for _, dir := range dirs {
		limit[dir] = -1
		if c.coin() {
			limit[dir] = c.rng.IntN(count[dir] + 1)
		}
	}
	var kept []*nameChange
	seen := map[string]int{}
	for _, change := range pending {
		seen[change.dir]++
		if l := limit[change.dir]; (l < 0 && c.coin()) || seen[change.dir] <= l {
			kept = append(kept, change)
		}
	}
	return kept
}

// content decides what a file holds.
func (c *crasher) content(n *inode) image {
	switch c.policy.kind {
	case crashDrop:
		return n.disk.clone()
	case crashKeep:
		return n.cur.clone()
	}
	lengths := 0
	for _, ch := range n.pending {
		if ch.kind != changeWrite {
			lengths++
		}
	}
	keepLengths := c.rng.IntN(lengths + 1)
	im := n.disk.clone()
	for _, ch := range n.pending {
		if ch.kind == changeWrite {
			c.someSectors(&im, ch)
			continue
		}
		if keepLengths > 0 {
			keepLengths--
			ch.applyTo(&im)
		}
	}
	return im
}

// someSectors writes the part of one pending write that reached the disk.
func (c *crasher) someSectors(im *image, w *change) {
	first, last := w.off/sectorBytes, (w.end()-1)/sectorBytes
	count := last - first + 1
	way := c.rng.IntN(5)
	cut := first + c.rng.Int64N(count+1)
	for s := first; s <= last; s++ {
		keep := false
		switch way {
		case 0: // none
		case 1:
			keep = true
		case 2:
			keep = s < cut
		case 3:
			keep = s >= cut
		case 4:
			keep = c.coin()
		}
		if keep {
			from, to := max(w.off, s*sectorBytes), min(w.end(), (s+1)*sectorBytes)
			im.writeAt(w.data[from-w.off:to-w.off], from)
		}
	}
	if w.end() > im.size && c.coin() {
		im.resize(w.end())
	}
}
