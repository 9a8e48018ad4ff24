package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"queen/tools/cli"
)

// TestRoundTrip: what peek, fetch, tail and pop print can be pushed again, and is the same message: every byte value, JSON
// with the digits that it has, content type, headers and ids.
func TestRoundTrip(t *testing.T) {
	n := runNode(t, t.TempDir(), nil)
	payloads := map[string]string{ // by content type, as far as one may say it
		"application/json": `{"n":12345678901234567890.10,"html":"<&>","text":"\u0000é\ud83d\ude00","null":null}`,
		"text/plain":       "line\nline\ttext",
	}
	sent := 0
	push := func(contentType string, payload []byte) {
		sent++
		q := url.Values{"queue": {"source"}, "partition": {fmt.Sprint("p", sent%3)}, "transactionId": {fmt.Sprint("t ", sent)}}
		req, err := http.NewRequest(http.MethodPost, n.url+"/api/v1/push/raw?"+q.Encode(), bytes.NewReader(payload))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", contentType)
		req.Header["Queen-H-some%2Dname"] = []string{"a%20b", "%FF%00"}
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode >= 300 {
			t.Fatalf("%v %v", res, err)
		}
		_ = res.Body.Close()
	}
	for contentType, payload := range payloads {
		push(contentType, []byte(payload))
	}
	for b := range 256 {
		push("application/octet-stream", []byte{byte(b)})
	}
	push("application/octet-stream", nil)

	line := func(in string, args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		code := run(args, cli.Streams{In: strings.NewReader(in), Out: &out, Err: &errs, Env: []string{"QUEEN_URL=" + n.url, "HOME=/"}})
		if code != cli.Done {
			t.Fatalf("%v: exit %d: %s", args, code, errs.String())
		}
		return out.String()
	}
	all := fmt.Sprint(sent)
	copies := map[string][]string{
		"peeked": {"peek", "source", "-n", all, "-o", "json"}, "tailed": {"tail", "source", "--from", "beginning", "-n", all},
		"popped": {"pop", "source", "-g", "g", "--from", "all", "-n", all, "--partitions", "8", "--payload", "base64", "-o", "json"},
		"hexed":  {"peek", "source", "-n", all, "--payload", "hex"}, "texts": {"peek", "source", "-n", all, "--payload", "utf8"},
	}
	want := contents(t, n, "source")
	for queue, args := range copies {
		if got := strings.Count(line(line("", args...), "push", queue, "--wrapped"), `"queued"`); got != sent {
			t.Fatalf("%s: %d of %d pushed", queue, got, sent)
		}
		got := contents(t, n, queue)
		for id, message := range want {
			if got[id] != message {
				t.Errorf("%s: %s is %s, want %s", queue, id, got[id], message)
			}
		}
	}
}

// contents are the messages of a queue as they are stored: by partition and id, content type, headers and payload.
func contents(t *testing.T, n *process, queue string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for p := range 3 {
		partition := fmt.Sprint("p", p)
		for offset := uint64(0); ; offset++ {
			q := url.Values{"queue": {queue}, "partition": {partition}, "offset": {fmt.Sprint(offset)}}
			res, err := http.Get(n.url + "/api/v1/fetch/raw?" + q.Encode())
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if _ = res.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != http.StatusOK {
				break
			}
			headers, err := json.Marshal(res.Header["Queen-H-Some-Name"])
			if err != nil {
				t.Fatal(err)
			}
			id := partition + "/" + res.Header.Get("Queen-Transaction-Id")
			all[id] = fmt.Sprintf("%s %s %q", res.Header.Get("Content-Type"), headers, body)
		}
	}
	return all
}
