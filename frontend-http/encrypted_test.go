package frontendhttp

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/seal"
	"queen/engine/vfs"
)

// markOf is in the payload of the message that came into a queue in one way, and nowhere else. No mark is the beginning of
// another.
func markOf(queue, way string) string { return "mark of " + queue + " by " + way + "." }

// fillQueue has a message take every way into a queue, and returns the ways. Timers are due in a second, in a minute and in
// a day.
func fillQueue(n *node, queue string) (ways []string) {
	n.t.Helper()
	payload := func(way string) string {
		ways = append(ways, way)
		return fmt.Sprintf(`{"v":%q}`, markOf(queue, way))
	}
	place := fmt.Sprintf(`"queue":%q,"partition":"p"`, queue)
	item := func(way string) string { return `{` + place + `,"payload":` + payload(way) + `}` }
	timer := func(way, when string) string {
		return fmt.Sprintf(`{"op":"schedule",%s,"timerKey":%q,%s,"payload":%q}`, place, way, when,
			base64.StdEncoding.EncodeToString([]byte(payload(way))))
	}
	n.post("/api/v1/push", `{"items":[`+item("push")+`]}`).is(201)
	n.post("/api/v1/push/raw?partition=p&queue="+queue, payload("raw push")).is(201)
	n.post("/api/v1/transaction", `{"operations":[{"type":"push","items":[`+item("transaction")+`]}],"timers":[`+
		timer("timer of a transaction", `"delayMs":1000`)+`]}`).is(200).equal(`true`, "success")
	n.post("/api/v1/timers", `{"operations":[`+timer("timer", `"delayMs":1000`)+`,`+timer("recurring timer", `"cron":"* * * * *"`)+`,`+
		timer("pending timer", `"delayMs":86400000`)+`]}`).is(200)

	query := n.post("/streams/v1/queries", fmt.Sprintf(`{"name":%q,"source_queue":"source","sink_queue":%[1]q,"config_hash":"h"}`, queue)).
		is(200).str("query_id")
	n.push1("source", queue, "s", `1`)
	p := n.get("/api/v1/pop/queue/source/partition/" + queue + "?subscriptionMode=all&consumerGroup=streams." + query).is(200)
	n.post("/streams/v1/cycle", fmt.Sprintf(`{"query_id":%q,"partition_id":%q,"consumer_group":"streams.%[1]s","push_items":[%[3]s],`+
		`"ack":{"transactionId":"s","leaseId":%q,"status":"completed","count":1}}`, query, p.str("partitionId"), item("stream sink"),
		p.str("leaseId"))).is(200).equal(`true`, "success")

	for _, way := range []string{"dead", "replayed"} {
		n.push1(queue, way, way, payload(way))
		p := n.get("/api/v1/pop/queue/" + queue + "/partition/" + way + "?consumerGroup=g&subscriptionMode=all").is(200)
		n.post("/api/v1/ack", fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"leaseId":%q,"consumerGroup":"g","status":"dlq",`+
			`"error":"bad"}`, way, p.str("partitionId"), p.str("leaseId"))).is(200).equal(`true`, 0, "dlq")
	}
	letter := n.get("/api/v1/dlq?partition=replayed&queue="+queue).is(200).str("messages", 0, "id")
	n.post("/api/v1/dlq/"+letter+"/replay", `{}`).is(200)
	return ways
}

// readFiles reads every file below a directory.
func readFiles(t *testing.T, fs vfs.FS, dir string, into map[string][]byte) {
	t.Helper()
	names, err := fs.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		name = dir + "/" + name
		info, err := fs.Stat(name)
		require.NoError(t, err)
		if info.Dir {
			readFiles(t, fs, name, into)
			continue
		}
		into[name], err = vfs.ReadFile(fs, name, 1<<30)
		require.NoError(t, err)
	}
}

// holding are the files in which a text is.
func holding(files map[string][]byte, text string) (names []string) {
	for name, content := range files {
		if bytes.Contains(content, []byte(text)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestEncryptedQueueOnDisk: in whatever way a message comes into an encrypted queue, its payload is in no file of the node,
// while it runs and after it stopped: log, checkpoints, tables of keyed rows. The same messages in a queue that does not
// encrypt show that the search sees them (R-4, S-enc-1).
func TestEncryptedQueueOnDisk(t *testing.T) {
	disk, keyed := vfs.NewMem(), t.TempDir()
	ring, err := seal.NewRing(strings.Repeat("5a17", seal.KeyBytes/2))
	require.NoError(t, err)
	c := clock.NewFake(time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC).UnixMicro())
	e, err := engine.OpenLocal(engine.Config{FS: disk, KeyedDir: keyed, Clock: c, Rand: clock.NewFakeRand(1), Dir: "data",
		SegmentBytes: 1 << 20, PoolReady: 1, SweepEvery: 1000 * time.Hour, MarkEvery: time.Second, CheckpointEvery: 2 * time.Second,
		Keyring: func() *seal.Ring { return ring }})
	require.NoError(t, err)
	n := startWith(t, Options{Engine: e, Clock: c})
	n.post("/api/v1/configure", `{"queue":"locked","options":{"encryptionEnabled":true}}`).is(200)
	ways := fillQueue(n, "locked")
	require.Equal(t, ways, fillQueue(n, "clear"))
	for range 10 {
		c.Advance(10 * time.Second)
		e.Settle()
	}
	for _, queue := range []string{"locked", "clear"} { // all of them arrived, and are read as they were sent
		got := n.post("/api/v1/fetch", strings.ReplaceAll(`{"entries":[{"queue":Q,"partition":"p","offset":0},{"queue":Q,"partition":"dead",`+
			`"offset":0},{"queue":Q,"partition":"replayed","offset":1}]}`, "Q", `"`+queue+`"`)).is(200).body
		pending := n.get("/api/v1/timers/" + queue + "/pending%20timer").is(200).str("payload")
		payload, err := base64.StdEncoding.DecodeString(pending)
		require.NoError(t, err)
		for _, way := range ways {
			require.Contains(t, got+string(payload), markOf(queue, way))
		}
	}
	running, stopped := map[string][]byte{}, map[string][]byte{}
	readFiles(t, disk, "data", running)
	n.stop()
	require.NoError(t, e.Close(context.Background()))
	readFiles(t, disk, "data", stopped)
	readFiles(t, vfs.NewOS(vfs.OSOptions{}), keyed, stopped)
	for when, files := range map[string]map[string][]byte{"running": running, "stopped": stopped} {
		for _, way := range ways {
			require.NotEmpty(t, holding(files, markOf("clear", way)), "%s: the search does not see the %s", when, way)
			require.Empty(t, holding(files, markOf("locked", way)), "%s: the %s is in the clear", when, way)
		}
	}
	rows := map[string][]byte{}
	readFiles(t, vfs.NewOS(vfs.OSOptions{}), keyed, rows)
	require.NotEmpty(t, holding(rows, markOf("clear", "pending timer")), "the search does not see the tables of keyed rows")
}
