package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"queen/bench/internal/histo"
	"queen/bench/internal/message"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

type options struct {
	dir                                string
	producers, batch, size, partitions int
	warmup, duration                   time.Duration
	memtable                           int
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "bench/out", "directory for data, on the disk to be measured")
	flag.IntVar(&o.producers, "producers", 4, "goroutines that write")
	flag.IntVar(&o.batch, "batch", 400, "values per batch")
	flag.IntVar(&o.size, "size", 256, "bytes per value")
	flag.IntVar(&o.partitions, "partitions", 10_000, "key prefixes")
	flag.DurationVar(&o.warmup, "warmup", 20*time.Second, "time before counting")
	flag.DurationVar(&o.duration, "duration", 60*time.Second, "time counted")
	flag.IntVar(&o.memtable, "memtable", 64, "MiB of a memtable")
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.Parse()
	r, err := run(&o)
	if err != nil {
		report.Fail("pebble", err)
	}
	r.Exit(*asJSON)
}

func run(o *options) (r *report.Report, err error) {
	dir, err := report.TempDir(o.dir)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	db, err := pebble.Open(dir, &pebble.Options{MemTableSize: uint64(o.memtable) << 20, MemTableStopWritesThreshold: 4,
		Logger: quiet{}})
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := db.Close(); err == nil {
			err = e
		}
	}()
	meter, err := procfs.NewMeter(dir, procfs.Self())
	if err != nil {
		return nil, err
	}
	w := &writers{o: o, db: db}
	for i := range o.producers {
		w.running.Add(1)
		go w.write(i)
	}
	time.Sleep(o.warmup)
	var ignored histo.Histogram
	w.latency.Take(&ignored)
	before, messages := meter.Read(), w.written.Load()
	time.Sleep(o.duration)
	spent, messages := meter.Read().Sub(before), w.written.Load()-messages
	var latency histo.Histogram
	w.latency.Take(&latency)
	w.stop.Store(true)
	w.running.Wait()
	if err := w.failed.Load(); err != nil {
		return nil, *err
	}
	r = &report.Report{Program: "pebble", Conditions: fmt.Sprintf(
		"%d producers, batches of %d x %d B over %d prefixes, synced each, memtables of %d MiB, %v after %v, load %.1f",
		o.producers, o.batch, o.size, o.partitions, o.memtable, o.duration, o.warmup, procfs.Load())}
	r.Add("push rate", float64(messages)/spent.Elapsed.Seconds(), "msg/s")
	r.Latency("push", &latency)
	r.Spent(spent, messages)
	return r, nil
}

type writers struct {
	o       *options
	db      *pebble.DB
	written atomic.Uint64
	latency histo.Recorder
	stop    atomic.Bool
	failed  atomic.Pointer[error]
	running sync.WaitGroup
}

// write fills batches for the prefixes that are this producer's: those whose number leaves i when divided by their count.
func (w *writers) write(i int) {
	defer w.running.Done()
	o := w.o
	rng := rand.New(rand.NewPCG(uint64(i), 3))
	next := make([]uint32, o.partitions)
	own := (o.partitions - i + o.producers - 1) / o.producers
	var key, value []byte
	for !w.stop.Load() {
		b := w.db.NewBatch()
		for range o.batch {
			p := rng.IntN(own)*o.producers + i
			key = message.AppendPartition(key[:0], p)
			key = binary.BigEndian.AppendUint64(key, uint64(next[p]))
			value = message.AppendPayload(value[:0], o.size, next[p], time.Now().UnixMicro(), rng.Uint64())
			next[p]++
			if err := b.Set(key, value, nil); err != nil {
				w.failed.Store(&err)
				return
			}
		}
		start := time.Now()
		if err := b.Commit(pebble.Sync); err != nil {
			w.failed.Store(&err)
			return
		}
		w.latency.Add(time.Since(start))
		w.written.Add(uint64(o.batch))
		if err := b.Close(); err != nil {
			w.failed.Store(&err)
			return
		}
	}
}

// quiet keeps the store's notes about compactions to itself.
type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(format string, args ...any) { log.Printf(format, args...) }
func (quiet) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }
