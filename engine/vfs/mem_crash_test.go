package vfs_test

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"queen/engine/invariants"
	"queen/engine/vfs"
)

// TestMemContentModel runs random writes, cuts and flushes on one file against a model that keeps, for each byte,
// the set of values a crash may leave there. Every crash must stay inside the sets; the least and the most crash
// must be exact.
func TestMemContentModel(t *testing.T) {
	seeds := uint64(60)
	if invariants.Enabled {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runContentModel(t, seed) })
	}
}

const modelBytes = 4 << 10

// byteModel is one file: what is seen, what is certain, and what is possible, byte by byte.
type byteModel struct {
	size     int
	seen     [modelBytes]byte
	possible [modelBytes]map[byte]bool
	certain  [modelBytes]bool // possible has one value, and the byte exists on disk
}

func (b *byteModel) write(off int, p []byte) {
	for i, c := range p {
		b.seen[off+i] = c
		b.possible[off+i][c] = true
		b.certain[off+i] = false
	}
	b.size = max(b.size, off+len(p))
}

func (b *byteModel) settle(from, to int) {
	for i := from; i < to; i++ {
		b.possible[i] = map[byte]bool{b.seen[i]: true}
		b.certain[i] = i < b.size
	}
}

func (b *byteModel) truncate(size int) {
	for i := size; i < modelBytes; i++ {
		b.seen[i] = 0
		b.possible[i][0] = true
		b.certain[i] = false
	}
	b.size = size
}

func (b *byteModel) check(t *testing.T, content []byte) {
	t.Helper()
	for i := range modelBytes {
		var c byte
		if i < len(content) {
			c = content[i]
		} else if b.certain[i] {
			t.Fatalf("byte %d was durable and is cut off at %d", i, len(content))
		}
		if !b.possible[i][c] {
			t.Fatalf("byte %d is %d, possible are %v", i, c, slices.Sorted(maps.Keys(b.possible[i])))
		}
	}
}

func runContentModel(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	m := vfs.NewMem()
	f := must(vfs.OpenNew(m, "a"))(t)
	ok(t, m.SyncDir("/"))
	var b byteModel
	for i := range b.possible {
		b.possible[i] = map[byte]bool{0: true}
	}
	for step := range 40 {
		off, n := rng.IntN(modelBytes/2), 1+rng.IntN(modelBytes/2)
		p := slices.Repeat([]byte{byte(step + 1)}, n)
		switch rng.IntN(10) {
		case 0:
			ok(t, f.Truncate(int64(off)))
			b.truncate(off)
		case 1:
			ok(t, f.Sync())
			b.settle(0, modelBytes)
		case 2, 3, 4:
			ok(t, f.WriteAtSync(p, int64(off)))
			b.write(off, p)
			b.settle(off, off+n)
		default:
			write(t, f, string(p), int64(off))
			b.write(off, p)
		}
		wantContent(t, m, "a", string(b.seen[:b.size]))
		wantContent(t, m.Crash(vfs.KeepAll()), "a", string(b.seen[:b.size]))
		b.check(t, must(vfs.ReadFile(m.Crash(vfs.DropUnsynced()), "a", 1<<20))(t))
		for crash := range uint64(10) {
			b.check(t, must(vfs.ReadFile(m.Crash(vfs.RandomSubset(seed<<20+uint64(step)<<8+crash)), "a", 1<<20))(t))
		}
	}
}

// TestMemNameModel tries every sequence of up to four operations on names (three under -race) against a model: a
// list of pending edits of which a crash keeps any subset. The least crash keeps none, the most all, and random
// ones must find every subset's outcome that the model has, and no other.
func TestMemNameModel(t *testing.T) {
	ops := []string{"create a", "create b", "rename a b", "rename b a", "link a c", "remove a", "remove b", "sync-dir"}
	var run func(prefix []string, depth int)
	sequences := 0
	run = func(prefix []string, depth int) {
		sequences++
		checkNames(t, prefix, depth == 0)
		if depth == 0 {
			return
		}
		for _, op := range ops {
			run(append(slices.Clip(prefix), op), depth-1)
		}
	}
	depth := 4
	if invariants.Enabled {
		depth = 3 // the race detector makes each one ten times as long
	}
	run(nil, depth)
	t.Logf("%d sequences", sequences)
}

// nameModel mirrors the names of one directory: values are file numbers, 0 for none.
type nameModel struct {
	durable, seen map[string]int
	pending       []map[string]int
	files         int
}

func (n *nameModel) edit(e map[string]int) {
	n.pending = append(n.pending, e)
	overlay(n.seen, e)
}

func overlay(names, e map[string]int) {
	for k, v := range e {
		if v == 0 {
			delete(names, k)
		} else {
			names[k] = v
		}
	}
}

// apply runs one operation on the model and reports whether it must succeed.
func (n *nameModel) apply(op string) bool {
	w := strings.Fields(op)
	switch w[0] {
	case "create":
		if n.seen[w[1]] == 0 {
			n.files++
			n.edit(map[string]int{w[1]: n.files})
		}
		return true
	case "sync-dir":
		n.durable, n.pending = maps.Clone(n.seen), nil
		return true
	}
	file := n.seen[w[1]]
	if file == 0 {
		return false
	}
	switch w[0] {
	case "rename":
		if n.seen[w[2]] != file {
			n.edit(map[string]int{w[1]: 0, w[2]: file})
		}
	case "link":
		if n.seen[w[2]] != 0 {
			return false
		}
		n.edit(map[string]int{w[2]: file})
	case "remove":
		n.edit(map[string]int{w[1]: 0})
	}
	return true
}

// outcomes lists what any subset of the pending edits leaves.
func (n *nameModel) outcomes() map[string]bool {
	all := map[string]bool{}
	for subset := range 1 << len(n.pending) {
		names := maps.Clone(n.durable)
		for i, e := range n.pending {
			if subset>>i&1 == 1 {
				overlay(names, e)
			}
		}
		all[fmt.Sprint(names)] = true
	}
	return all
}

// checkNames compares one sequence; the search for all outcomes is made where it is asked for.
func checkNames(t *testing.T, sequence []string, search bool) {
	m, model := vfs.NewMem(), &nameModel{durable: map[string]int{}, seen: map[string]int{}}
	for _, op := range sequence {
		err := doName(t, m, op, model.files+1)
		if want := model.apply(op); want != (err == nil) {
			t.Fatalf("%q: %s: %v", sequence, op, err)
		}
	}
	if got, want := namesOf(t, m), fmt.Sprint(model.seen); got != want {
		t.Fatalf("%q: %s, want %s", sequence, got, want)
	}
	if got, want := namesOf(t, m.Crash(vfs.KeepAll())), fmt.Sprint(model.seen); got != want {
		t.Fatalf("%q: keeping all leaves %s, want %s", sequence, got, want)
	}
	if got, want := namesOf(t, m.Crash(vfs.DropUnsynced())), fmt.Sprint(model.durable); got != want {
		t.Fatalf("%q: dropping all leaves %s, want %s", sequence, got, want)
	}
	want, found := model.outcomes(), map[string]bool{}
	tries := uint64(4)
	if search {
		tries = 400
	}
	for seed := uint64(0); seed < tries && len(found) < len(want); seed++ {
		found[namesOf(t, m.Crash(vfs.RandomSubset(seed)))] = true
	}
	for names := range found {
		if !want[names] {
			t.Fatalf("%q: a crash leaves %s, possible are %v", sequence, names, sorted(want))
		}
	}
	if search && len(found) < len(want) {
		t.Fatalf("%q: crashes found %v of %v", sequence, sorted(found), sorted(want))
	}
}

// doName runs one operation on the Mem; a created file holds its number, synced.
func doName(t *testing.T, m *vfs.Mem, op string, file int) error {
	w := strings.Fields(op)
	switch w[0] {
	case "create":
		if _, err := m.Stat(w[1]); err == nil {
			return nil
		}
		f := must(vfs.OpenNew(m, w[1]))(t)
		defer f.Close()
		write(t, f, fmt.Sprint(file), 0)
		return f.Sync()
	case "rename":
		return m.Rename(w[1], w[2])
	case "link":
		return m.Link(w[1], w[2])
	case "remove":
		return m.Remove(w[1])
	default:
		return m.SyncDir("/")
	}
}

func namesOf(t *testing.T, m *vfs.Mem) string {
	t.Helper()
	names := map[string]string{}
	for _, name := range must(m.List("/"))(t) {
		names[name] = string(must(vfs.ReadFile(m, name, 100))(t))
	}
	return fmt.Sprint(names)
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// TestWriteFileSyncCrash cuts the power at every operation of replacing a file, and makes every operation fail: the
// name holds the old content or the new one, and the new one once the call has returned nil.
func TestWriteFileSyncCrash(t *testing.T) {
	const before, after = "old content", "the new content is longer"
	prepare := func() *vfs.Mem {
		m := vfs.NewMem()
		ok(t, vfs.MkdirAllSync(m, "d"))
		ok(t, vfs.WriteFileSync(m, "d/f", []byte(before)))
		return m
	}
	m := prepare()
	start := m.Ops()
	ok(t, vfs.WriteFileSync(m, "d/f", []byte(after)))
	total := m.Ops() - start
	if total != 5 {
		t.Fatalf("%d operations, want create, write, sync, rename, sync-dir", total)
	}
	for cut := int64(1); cut <= total+1; cut++ {
		m := prepare()
		m.PowerOffAt(cut)
		err := vfs.WriteFileSync(m, "d/f", []byte(after))
		if (err == nil) != (cut > total) {
			t.Fatalf("cut %d: %v", cut, err)
		}
		for seed := range uint64(100) {
			policy := vfs.RandomSubset(seed)
			if seed == 0 {
				policy = vfs.DropUnsynced()
			}
			got := string(must(vfs.ReadFile(m.Crash(policy), "d/f", 100))(t))
			if got != after && (got != before || err == nil) {
				t.Fatalf("cut %d, seed %d: %q after %v", cut, seed, got, err)
			}
		}
	}
}

// What was in a directory that a crash has lost is gone, also for somebody who knows its name or makes the directory anew.
func TestMemLostDirectory(t *testing.T) {
	m := vfs.NewMem()
	ok(t, m.MkdirAll("d/e"))
	ok(t, vfs.WriteFileSync(m, "d/e/f", []byte("x"))) // syncs d/e, but not d and not the root
	disk := m.Crash(vfs.DropUnsynced())
	_, err := disk.Stat("d/e/f")
	wantIs(t, err, fs.ErrNotExist)
	ok(t, disk.MkdirAll("d/e"))
	wantList(t, disk, "d/e")
}
