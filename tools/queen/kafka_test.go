package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"queen/engine/auth"
	"queen/engine/clock"
)

// kafkaAddr is the address of the ready file.
func (p *process) kafkaAddr() string {
	p.t.Helper()
	data, err := os.ReadFile(p.readyFile)
	if err != nil {
		p.t.Fatal(err)
	}
	var ready readyFile
	if err := json.Unmarshal(data, &ready); err != nil || ready.Kafka == "" {
		p.t.Fatalf("the ready file names no Kafka listener: %s", data)
	}
	return ready.Kafka
}

func runKafka(t testing.TB, env []string, args ...string) *process {
	return runNode(t, t.TempDir(), env, append([]string{"--frontends", "http,kafka", "--kafka", "127.0.0.1:0",
		"--kafka-group-join-delay", "0s"}, args...)...)
}

// TestKafkaGuide runs the part of the README that needs kcat.
func TestKafkaGuide(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "grep", "kcat"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the guide needs %s, which is not installed", tool)
		}
	}
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var script, want strings.Builder
	blocks := 0
	var to *strings.Builder
	for _, line := range strings.Split(string(data), "\n") {
		switch {
		case line == "```sh kcat":
			to = &script
			blocks++
		case line == "```text":
			to = &want
		case line == "```":
			to = nil
		case to != nil:
			fmt.Fprintln(to, line)
		}
	}
	if blocks == 0 {
		t.Fatal("there is nothing to run")
	}
	n := runKafka(t, nil)
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script.String())
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "QUEEN_URL=" + n.url, "KAFKA=" + n.kafkaAddr()}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, stderr.String())
	}
	if string(out) != want.String() {
		t.Errorf("the commands print\n%s\nand the README shows\n%s\n%s", out, want.String(), stderr.String())
	}
}

// TestKafkaServe: a node serves Kafka beside HTTP, counts it in the same metrics, and lets clients go when it stops, also
// one whose fetch waits.
func TestKafkaServe(t *testing.T) {
	n := runKafka(t, nil)
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.kafkaAddr()), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := cl.PollFetches(ctx); got.Err() != nil || got.NumRecords() != 1 {
		t.Fatalf("%d records, %v", got.NumRecords(), got.Err())
	}
	if _, body := n.call("GET", "/metrics/prometheus", nil); !strings.Contains(string(body), `queen_kafka_request_duration_seconds_count{api="Produce"} 1`) {
		t.Errorf("the metrics do not count the request: %s", body)
	}
	if code := n.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	if strings.Contains(n.log(), "closed by force") {
		t.Error("a connection did not end by itself")
	}
}

// TestKafkaMemberHolds: a native pop of what a Kafka member of the same consumer group holds is refused, and the list of
// groups shows that member.
func TestKafkaMemberHolds(t *testing.T) {
	n := runKafka(t, nil)
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.kafkaAddr()), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics("t"), kgo.ConsumerGroup("g"),
		kgo.ClientID("biller"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := cl.PollFetches(ctx); got.Err() != nil || got.NumRecords() != 1 {
		t.Fatalf("%d records, %v", got.NumRecords(), got.Err())
	}
	if code, body := n.call("GET", "/api/v1/pop/queue/t?consumerGroup=g", nil); code != 409 || !strings.Contains(string(body), "group_held") {
		t.Errorf("%d %s", code, body)
	}
	for _, path := range []string{"/api/v1/consumer-groups", "/api/v1/consumer-groups/g"} {
		if code, body := n.call("GET", path, nil); code != 200 || !strings.Contains(string(body), `"clientId":"biller"`) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, body := n.call("GET", "/api/v1/pop/queue/t?consumerGroup=h&subscriptionMode=all", nil); code != 200 {
		t.Errorf("%d %s", code, body)
	}
}

// TestKafkaSecure: with keys and a certificate, Kafka clients need both, and the rights of their key.
func TestKafkaSecure(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir, "kafka")
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	secret, hash := auth.NewKey(clock.RealRand().Fill)
	keys := filepath.Join(dir, "keys.yaml")
	if err := os.WriteFile(keys, []byte("keys:\n  - {name: app, hash: "+hash+", roles: [read-write]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := runKafka(t, nil, "--auth-keys", keys, "--kafka-tls-cert", cert, "--kafka-tls-key", key)
	pem, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := func(user, pass string) *kadm.Client {
		cl, err := kgo.NewClient(kgo.SeedBrokers(n.kafkaAddr()), kgo.DialTLSConfig(&tls.Config{RootCAs: roots, ServerName: "localhost"}),
			kgo.SASL(plain.Auth{User: user, Pass: pass}.AsMechanism()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return kadm.NewClient(cl)
	}
	if _, err := client("app", secret).CreateTopic(ctx, 3, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	if _, err := client("another", secret).ListTopics(ctx); err == nil {
		t.Error("a key was taken under another's name")
	}
	if !strings.Contains(n.log(), "frontend=kafka") {
		t.Error("the listener is not told")
	}
}
