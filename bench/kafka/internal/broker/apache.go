package broker

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"queen/bench/internal/node"
)

// ApacheStep is how many partitions one request to Apache Kafka may create: its controller refuses changes of more than 10,000
// records.
const ApacheStep = 5000

// ApacheOptions say how Apache Kafka is started.
type ApacheOptions struct {
	// Lib is the directory of its jars; Maven fills it when they are not there.
	Lib string
	// Heap is that of its process, in the words of java; empty takes that of its own start script.
	Heap string
	// Dir is an empty directory for its data, its log and its settings.
	Dir string
	// Settings are further lines of server.properties.
	Settings []string
}

// jars returns the class path, fetched when it is not there.
func (o *ApacheOptions) jars() (string, error) {
	if some, _ := filepath.Glob(filepath.Join(o.Lib, "kafka_*.jar")); len(some) > 0 {
		return filepath.Join(o.Lib, "*"), nil
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "queen").Output()
	if err != nil {
		return "", fmt.Errorf("broker: go list: %w", err)
	}
	pom := filepath.Join(strings.TrimSpace(string(root)), "bench", "kafka", "java", "pom.xml")
	out, err := exec.Command("mvn", "-q", "-f", pom, "dependency:copy-dependencies", "-DoutputDirectory="+o.Lib).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("broker: jars of Apache Kafka: %w\n%s", err, out)
	}
	return filepath.Join(o.Lib, "*"), nil
}

// Apache formats a log directory and runs a broker that is its own controller.
func Apache(o ApacheOptions) (*Broker, error) {
	path, err := o.jars()
	if err != nil {
		return nil, err
	}
	addr, err := node.FreeAddr()
	if err != nil {
		return nil, err
	}
	controller, err := node.FreeAddr()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(o.Dir, "server.properties")
	if err := os.WriteFile(file, []byte(properties(addr, controller, filepath.Join(o.Dir, "logs"), o.Settings)), 0o644); err != nil {
		return nil, err
	}
	format := java(path, "-Xmx256m", "kafka.tools.StorageTool", "format", "-t", clusterID(), "-c", file)
	if out, err := format.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("broker: format of Apache Kafka: %w\n%s", err, out)
	}
	// Collector and heap are what Apache Kafka's start script sets.
	heap := cmp.Or(o.Heap, "1g")
	server := java(path, "-Xms"+heap, "-Xmx"+heap, "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
		"-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "kafka.Kafka", file)
	return Start(server, addr, filepath.Join(o.Dir, "kafka.log"), 2*time.Minute)
}

func java(path string, args ...string) *exec.Cmd {
	return exec.Command("java", append([]string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", path}, args...)...)
}

// properties are those that a single node needs; everything else stays at its default.
func properties(addr, controller, logs string, settings []string) string {
	_, controllerPort, _ := net.SplitHostPort(controller)
	return strings.Join(append([]string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.voters=1@127.0.0.1:" + controllerPort,
		"listeners=PLAINTEXT://" + addr + ",CONTROLLER://" + controller,
		"advertised.listeners=PLAINTEXT://" + addr,
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name=PLAINTEXT",
		"controller.listener.names=CONTROLLER",
		"log.dirs=" + logs,
		"offsets.topic.replication.factor=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"group.initial.rebalance.delay.ms=0",
		"auto.create.topics.enable=false",
	}, settings...), "\n") + "\n"
}

// clusterID is 16 random bytes as Apache Kafka writes them; one that starts like a flag would be taken for one.
func clusterID() string {
	for {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		if id := base64.RawURLEncoding.EncodeToString(b[:]); id[0] != '-' {
			return id
		}
	}
}
