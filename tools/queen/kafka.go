package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/clock"
	"queen/engine/format"
	frontendkafka "queen/frontend-kafka"
	"queen/tools/certs"
	"queen/tools/config"
)

// openKafkaCerts reads the certificate that is only of Kafka's listeners; nil when there is none.
func openKafkaCerts(c *config.Config, log *slog.Logger) (*certs.Store, error) {
	if c.Kafka.TLSCert == "" {
		return nil, nil
	}
	s, err := certs.Open(certs.Options{Cert: c.Kafka.TLSCert, Key: c.Kafka.TLSKey, ClientCA: c.TLSClientCA, Now: time.Now,
		Told: told(log, "kafka.tls.cert")})
	if err != nil {
		return nil, fmt.Errorf("kafka.tls.cert: %w", err)
	}
	return s, nil
}

// bindKafka binds the listeners of the Kafka frontend. Clients that come before the engine is open wait for it.
func bindKafka(n *node, ticks clock.Clock) (*frontend, error) {
	c := n.config
	rows, err := c.KafkaListeners()
	if err != nil {
		return nil, err
	}
	var addrs []string
	k := &c.Kafka
	o := frontendkafka.Options{
		Clock: ticks, Logger: n.log, Quotas: n.plans.quotas, Version: version, Dir: c.Data, ClusterID: k.ClusterID, Rack: k.Rack,
		Partitions: int32(k.Partitions), MaxPartitions: int32(k.MaxPartitions), NoAutoCreate: !k.AutoCreate,
		MaxConns: k.MaxConns, Memory: k.Memory, Coalesce: k.Coalesce, LagMax: k.ConsumerLag, TxnTimeoutMax: k.TxnTimeoutMax,
		ScramRoles: auth.RoleNames[k.ScramRole],
		Groups:     frontendkafka.GroupLimits{JoinDelay: k.JoinDelay, SessionMin: k.SessionMin, SessionMax: k.SessionMax},
	}
	if n.auth != nil {
		o.Auth = n.auth
	}
	if c.Clustered() {
		o.Clustered, o.NodeID, o.Nodes = true, int32(c.Cluster.Node), n.present
	}
	unbind := func() {
		for _, l := range o.Listeners {
			_ = l.Listener.Close()
		}
	}
	for _, row := range rows {
		ln, err := net.Listen("tcp", row.Addr)
		if err != nil {
			unbind()
			return nil, bindError("kafka", row.Addr, err)
		}
		l := frontendkafka.Listener{Listener: ln, Name: row.Name, Advertised: row.Advertised}
		if row.SASL {
			for _, m := range c.KafkaMechanisms() {
				l.SASL = append(l.SASL, frontendkafka.Mechanism(strings.ToUpper(m)))
			}
		}
		if store := n.kafkaCertificate(); row.TLS && store != nil {
			l.TLS = store.Config()
		}
		o.Listeners = append(o.Listeners, l)
		addrs = append(addrs, ln.Addr().String())
	}
	if n.kafka, err = frontendkafka.New(o); err != nil {
		unbind()
		return nil, err
	}
	n.ready.Kafka = addrs[0]
	return &frontend{name: "kafka", addr: strings.Join(addrs, ","), serve: n.kafka.Serve,
		attach: func(e engine.Engine) { n.kafka.Attach(e, n.engine) },
		shutdown: func(ctx context.Context) error {
			if forced := n.kafka.Shutdown(ctx); forced > 0 {
				n.log.Warn("connections were closed by force", "connections", forced)
			}
			return nil
		}}, nil
}

// present are the members of the node's cluster, true for those that answer; nil while they are not known.
func (n *node) present() map[int32]bool {
	seq, ok := n.engine.Cluster()
	if !ok {
		return nil
	}
	told, ok := seq.(interface {
		Present() map[format.Replica]bool
	})
	if !ok {
		return nil
	}
	all := map[int32]bool{}
	for node, answered := range told.Present() {
		all[int32(node)] = answered
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// kafkaCertificate is the certificate of Kafka's listeners.
func (n *node) kafkaCertificate() *certs.Store {
	if n.kafkaCerts != nil {
		return n.kafkaCerts
	}
	return n.certs
}
