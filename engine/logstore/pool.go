package logstore

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/vfs"
)

// Failpoints of the pool, in the order in which a file passes them.
var (
	failPoolZeroed  = invariants.Register("logstore.pool.zeroed")
	failPoolReady   = invariants.Register("logstore.pool.ready")
	failTakeHead    = invariants.Register("logstore.take.head-written")
	failTakeRenamed = invariants.Register("logstore.take.renamed")
	failTakeDurable = invariants.Register("logstore.take.durable")
	failRecycled    = invariants.Register("logstore.recycle.renamed")
)

// pool keeps segment files that are written already, so that an append never waits for space.
//
// INVARIANT: a file is ready only when all its bytes were written and synced, and its name too:
// overwriting it allocates nothing (TestPoolFilesAreWholeAndSynced).
//
// What a ready file holds does not matter: zeroes, or the extents of the segment it once was. A reader
// tells those from new ones by segment number and chain.
type pool struct {
	fs      vfs.FS
	dir     string
	size    int64
	want    int // ready + reserve
	reserve int
	inline  bool
	clock   clock.Clock
	events  *Events

	mu struct {
		sync.Mutex
		wake   *sync.Cond // a file became ready, one was taken, or the pool closes
		ready  []string   // base names
		next   uint32     // number of the next new file
		low    bool
		err    error // why the last attempt to make a file failed; nil after a success
		target int   // how many files are kept now: want while the node writes much, else idleReady
		taken  int64 // mono reading when a file was taken last
		closed bool
	}
	stop chan struct{} // ends the filler's pause
	done chan struct{} // the filler has ended
}

const (
	poolRetryEvery = 250 * time.Millisecond
	zeroChunkBytes = 1 << 20
	zeroPauseMost  = 50 * time.Millisecond
)

func newPool(o Options) *pool {
	p := &pool{
		fs: o.FS, dir: o.Dir, size: o.SegmentBytes, want: o.PoolReady + o.PoolReserve, reserve: o.PoolReserve,
		inline: o.inline, clock: o.Clock, events: o.Events,
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	p.mu.wake = sync.NewCond(&p.mu)
	p.mu.next = 1
	if p.mu.target = min(idleReady, p.want); p.inline {
		p.mu.target = p.want
	}
	return p
}

// A node that writes little keeps one file ready, which it takes long after the next one is made. One that
// fills a segment in less than busySegment keeps them all; it is told apart while the segment fills
// (writer.noteRate), long before the second file is wanted, and falls back when a segment lasted idleSegment.
const (
	idleReady   = 1
	busySegment = time.Minute
	idleSegment = 10 * time.Minute
)

// grow has the pool keep all its files, reserve included.
func (p *pool) grow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.target < p.want {
		p.mu.target = p.want
		p.mu.wake.Broadcast()
	}
}

// adopt takes over the files a previous run left. Half-made ones and those of another size are removed.
func (p *pool) adopt(names []string) error {
	for _, name := range names {
		n, ok := parseNumbered(strings.TrimSuffix(name, tmpSuffix), poolPrefix)
		if !ok {
			continue
		}
		p.mu.next = max(p.mu.next, n+1)
		info, err := p.fs.Stat(path.Join(p.dir, name))
		if err != nil {
			return err
		}
		if info.Size == p.size && !strings.HasSuffix(name, tmpSuffix) && len(p.mu.ready) < p.want {
			p.mu.ready = append(p.mu.ready, name)
			continue
		}
		if err := p.fs.Remove(path.Join(p.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// start makes the first file if there is none, and begins to fill the pool.
func (p *pool) start() error {
	if len(p.mu.ready) == 0 {
		if err := p.makeOne(); err != nil {
			return err
		}
	}
	if p.inline {
		close(p.done)
		return p.fillInline()
	}
	go p.fill()
	return nil
}

func (p *pool) fillInline() error {
	for len(p.mu.ready) < p.want {
		if err := p.makeOne(); err != nil {
			p.note(err)
			return nil // a full disk is met by take, if it comes to that
		}
	}
	return nil
}

// fill is the goroutine that keeps the pool full.
func (p *pool) fill() {
	defer close(p.done)
	for {
		p.mu.Lock()
		for len(p.mu.ready) >= p.mu.target && !p.mu.closed {
			if p.mu.low { // fewer are wanted than when the pool got low
				p.mu.Unlock()
				p.note(nil)
				p.mu.Lock()
				continue
			}
			p.mu.wake.Wait()
		}
		closed := p.mu.closed
		p.mu.Unlock()
		if closed {
			return
		}
		err := p.makeOne()
		p.note(err)
		if err != nil && !p.pause(poolRetryEvery) {
			return
		}
	}
}

// pause waits; false means the pool closes.
func (p *pool) pause(d time.Duration) bool {
	t := p.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-p.stop:
		return false
	}
}

// makeOne writes one file of zeroes. The order is the promise: zeroes, flush, name, flush of the name.
func (p *pool) makeOne() error {
	p.mu.Lock()
	name := poolName(p.mu.next)
	p.mu.next++
	p.mu.Unlock()
	full := path.Join(p.dir, name)
	if err := p.writeZeroes(full + tmpSuffix); err != nil {
		// The space of a half-made file is wanted elsewhere; what can not be removed now is removed at the
		// next open.
		return errors.Join(err, p.fs.Remove(full+tmpSuffix))
	}
	invariants.Failpoint(failPoolZeroed)
	if err := p.fs.Rename(full+tmpSuffix, full); err != nil {
		return err
	}
	if err := p.fs.SyncDir(p.dir); err != nil {
		return errors.Join(err, p.fs.Remove(full))
	}
	invariants.Failpoint(failPoolReady)
	p.give(name)
	return nil
}

func (p *pool) writeZeroes(name string) error {
	f, err := p.fs.Open(name, vfs.Write|vfs.Create|vfs.Truncate|vfs.Direct)
	if err != nil {
		return err
	}
	zeroes := vfs.AlignedBuffer(int(min(p.size, zeroChunkBytes)))
	for pos := int64(0); pos < p.size && err == nil; pos += int64(len(zeroes)) {
		start := p.clock.Mono()
		_, err = f.WriteAt(zeroes[:min(int64(len(zeroes)), p.size-pos)], pos)
		if pos+int64(len(zeroes)) < p.size && p.readyCount() > p.reserve {
			// The commit stream is writing too: as long as the reserve is not touched it has the disk most of the time.
			if took := p.clock.Mono() - start; !p.pause(min(3*time.Duration(took)*time.Microsecond, zeroPauseMost)) {
				err = ErrClosed
			}
		}
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (p *pool) give(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.ready = append(p.mu.ready, name)
	p.mu.wake.Broadcast()
}

// note remembers how the last attempt went and tells when the pool gets low or recovers.
func (p *pool) note(err error) {
	p.mu.Lock()
	p.mu.err = err
	// A node that writes little keeps fewer files than the reserve: it has what it wants.
	low := (err != nil || p.mu.low) && len(p.mu.ready) <= p.reserve && len(p.mu.ready) < p.mu.target
	changed := low != p.mu.low
	p.mu.low = low
	p.mu.Unlock()
	if changed && p.events.PoolLow != nil {
		p.events.PoolLow(low, err)
	}
}

// isLow reports that the ready files are used up and could not be replaced.
func (p *pool) isLow() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.low
}

func (p *pool) readyCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.ready)
}

// take turns a ready file into a segment and opens it for writing. Block 0 is durable before the name, so
// that a segment that exists always says which one it is; the name is durable when take returns. It waits
// while there is no file: a full disk is waited out, never an error. It returns ErrClosed when the pool
// closes meanwhile.
func (p *pool) take(head *format.SegmentHead) (vfs.File, error) {
	ready, err := p.takeReady()
	if err != nil {
		return nil, err
	}
	from, to := path.Join(p.dir, ready), path.Join(p.dir, head.Segment.FileName())
	block := vfs.AlignedBuffer(format.BlockSize)
	head.Encode(block)
	f, err := p.fs.Open(from, vfs.Write|vfs.Direct)
	if err != nil {
		return nil, err
	}
	err = f.WriteAtSync(block, 0)
	invariants.Failpoint(failTakeHead)
	if err == nil {
		err = p.fs.Rename(from, to)
	}
	invariants.Failpoint(failTakeRenamed)
	if err == nil {
		err = p.fs.SyncDir(p.dir)
	}
	invariants.Failpoint(failTakeDurable)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (p *pool) takeReady() (string, error) {
	if p.inline {
		if err := p.fillInline(); err != nil {
			return "", err
		}
		if len(p.mu.ready) == 0 {
			return "", fmt.Errorf("logstore: pool is empty: %w", p.mu.err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.mu.ready) == 0 && !p.mu.closed {
		p.mu.wake.Wait()
	}
	if len(p.mu.ready) == 0 {
		return "", ErrClosed
	}
	name := p.mu.ready[0]
	p.mu.ready = p.mu.ready[1:]
	now := p.clock.Mono()
	if !p.inline && now-p.mu.taken > idleSegment.Microseconds() {
		p.mu.target = min(idleReady, p.want)
	}
	p.mu.taken = now
	p.mu.wake.Broadcast()
	return name, nil
}

// recycle gives the file of a reclaimed segment to the pool, or removes it when the pool is full. The name
// is gone durably when it returns.
func (p *pool) recycle(name string) error {
	full := path.Join(p.dir, name)
	info, err := p.fs.Stat(full)
	if err != nil {
		return err
	}
	p.mu.Lock()
	fits := info.Size == p.size && len(p.mu.ready) < p.mu.target
	ready := poolName(p.mu.next)
	if fits {
		p.mu.next++
	}
	p.mu.Unlock()
	if !fits {
		return errors.Join(p.fs.Remove(full), p.fs.SyncDir(p.dir))
	}
	if err := p.fs.Rename(full, path.Join(p.dir, ready)); err != nil {
		return err
	}
	invariants.Failpoint(failRecycled)
	if err := p.fs.SyncDir(p.dir); err != nil {
		return err
	}
	p.give(ready)
	p.note(nil)
	return nil
}

// close ends the filler and every take that waits.
func (p *pool) close() {
	p.end()
	<-p.done
}

// end tells the goroutine to.
func (p *pool) end() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.wake.Broadcast()
	p.mu.Unlock()
	close(p.stop)
}
