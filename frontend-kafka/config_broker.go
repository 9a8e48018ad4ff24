package frontendkafka

import (
	"math"
	"strconv"
	"strings"
)

// brokerConfigs are the names of a broker: what this node was started with, and what clients may set and read again.
func (f *Frontend) brokerConfigs() configNames {
	o := &f.opts
	num := func(n int64) string { return strconv.FormatInt(n, 10) }
	told := func(name, value string) configName {
		return configName{name: name, kind: tString, def: value, fixed: true, doc: "As this node was started."}
	}
	var listeners, advertised []string
	for i := range o.Listeners {
		l := &o.Listeners[i]
		listeners = append(listeners, l.Name+"://"+l.Listener.Addr().String())
		advertised = append(advertised, l.Name+"://"+l.Advertised)
	}
	fixed := configNames{
		told("advertised.listeners", strings.Join(advertised, ",")),
		told("auto.create.topics.enable", strconv.FormatBool(!o.NoAutoCreate)),
		told("broker.id", num(int64(o.NodeID))),
		told("connections.max.idle.ms", num(o.IdleTimeout.Milliseconds())),
		told("default.replication.factor", "1"),
		told("delete.topic.enable", "true"),
		told("group.consumer.assignors", "uniform,range"),
		told("group.initial.rebalance.delay.ms", num(o.Groups.JoinDelay.Milliseconds())),
		told("group.max.session.timeout.ms", num(o.Groups.SessionMax.Milliseconds())),
		told("group.min.session.timeout.ms", num(o.Groups.SessionMin.Milliseconds())),
		told("inter.broker.protocol.version", "4.3"),
		told("listeners", strings.Join(listeners, ",")),
		told("node.id", num(int64(o.NodeID))),
		told("num.partitions", num(int64(o.Partitions))),
		told("offsets.retention.minutes", "-1"),
		told("offsets.topic.num.partitions", "1"),
		told("offsets.topic.replication.factor", "1"),
		told("process.roles", "broker,controller"),
		told("sasl.enabled.mechanisms", mechanismNames(o.Listeners)),
		told("socket.request.max.bytes", num(int64(o.MaxFrame))),
		told("transaction.max.timeout.ms", num(o.TxnTimeoutMax.Milliseconds())),
	}
	free := configNames{
		{name: "background.threads", kind: tInt, def: "10", check: within32(1, math.MaxInt32), doc: "Threads." + recordedOnly},
		{name: "follower.replication.throttled.rate", kind: tLong, def: maxLong, check: within64(0), doc: "Bytes a second." + recordedOnly},
		{name: "leader.replication.throttled.rate", kind: tLong, def: maxLong, check: within64(0), doc: "Bytes a second." + recordedOnly},
		{name: "log.cleaner.threads", kind: tInt, def: "1", check: within32(1, math.MaxInt32), doc: "Threads." + recordedOnly},
		{name: "max.connection.creation.rate", kind: tInt, def: "2147483647", check: within32(0, math.MaxInt32),
			doc: "New connections a second." + recordedOnly},
		{name: "max.connections", kind: tInt, def: "2147483647", check: within32(0, math.MaxInt32), doc: "Connections." + recordedOnly},
		{name: "max.connections.per.ip", kind: tInt, def: "2147483647", check: within32(0, math.MaxInt32), doc: "Connections." + recordedOnly},
		{name: "num.io.threads", kind: tInt, def: "8", check: within32(1, math.MaxInt32), doc: "Threads." + recordedOnly},
		{name: "num.network.threads", kind: tInt, def: "3", check: within32(1, math.MaxInt32), doc: "Threads." + recordedOnly},
		{name: "num.replica.fetchers", kind: tInt, def: "1", check: within32(1, math.MaxInt32), doc: "Threads." + recordedOnly},
	}
	all := append(fixed, free...)
	for _, t := range topicConfigs {
		if t.synonym == "" || all.find(t.synonym) != nil {
			continue
		}
		row := t
		row.name, row.synonym, row.fixed = t.synonym, "", true
		row.doc = "The default of a topic's " + t.name + "."
		all = append(all, row)
	}
	return all
}

func mechanismNames(all []Listener) string {
	var names []string
	for _, m := range []Mechanism{Plain, ScramSHA256, ScramSHA512} {
		for i := range all {
			if all[i].offers(m) {
				names = append(names, string(m))
				break
			}
		}
	}
	return strings.Join(names, ",")
}
