package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Kafka are the settings of the Kafka frontend.
type Kafka struct {
	// Addr, Advertised and Listeners are as they were written; Config.KafkaListeners makes one thing of them.
	Addr                  string
	Advertised, Listeners []string
	// SASL are mechanisms, by their names in lower case.
	SASL      []string
	ScramRole string
	// TLSCert and TLSKey are PEM files, or "" for those of all listeners.
	TLSCert, TLSKey string
	ClusterID, Rack string

	Partitions, MaxPartitions int
	AutoCreate                bool
	// SharedGroups lets native consumers pop what Kafka members of their consumer group hold.
	SharedGroups       bool
	Coalesce, MaxConns int
	// Memory bounds requests under way, and answers, in bytes.
	Memory int64

	// ConsumerLag is how far consumers should fall behind at most: producers make way from half of it on, below 0 never.
	ConsumerLag time.Duration

	JoinDelay, SessionMin, SessionMax, TxnTimeoutMax time.Duration
}

// KafkaListener is one listener of the Kafka frontend.
type KafkaListener struct {
	// Name is its protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
	Name, Addr string
	// Advertised is what clients are told, or "" for the bound address.
	Advertised string
	TLS, SASL  bool
}

// kafkaMechanisms are the words of kafka.sasl.
var kafkaMechanisms = []string{"plain", "scram-sha-256", "scram-sha-512"}

// KafkaMechanisms are the mechanisms of the listeners that ask who calls.
func (c *Config) KafkaMechanisms() []string {
	if len(c.Kafka.SASL) > 0 {
		return c.Kafka.SASL
	}
	return kafkaMechanisms
}

// KafkaListeners are the listeners of the Kafka frontend: those that are listed, or one that speaks TLS when there is a
// certificate and asks who calls when the other frontends do.
func (c *Config) KafkaListeners() ([]KafkaListener, error) {
	k := &c.Kafka
	if len(k.Listeners) == 0 {
		l := KafkaListener{Addr: k.Addr, TLS: c.TLSCert != "" || k.TLSCert != "", SASL: c.Authenticates() || len(k.SASL) > 0}
		l.Name = protocolName(l.TLS, l.SASL)
		if len(k.Advertised) > 1 {
			return nil, errors.New("kafka.advertised: there is one listener and more than one address")
		}
		if len(k.Advertised) == 1 {
			l.Advertised = strings.TrimPrefix(k.Advertised[0], l.Name+"://")
		}
		return []KafkaListener{l}, l.check()
	}
	var all []KafkaListener
	for _, s := range k.Listeners {
		name, address, ok := strings.Cut(s, "://")
		l := KafkaListener{Name: name, Addr: address, TLS: strings.HasSuffix(name, "SSL"), SASL: strings.HasPrefix(name, "SASL_")}
		switch {
		case !ok || name != protocolName(l.TLS, l.SASL):
			return nil, fmt.Errorf("kafka.listeners: %q: want PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, and ://host:port", s)
		case slices.ContainsFunc(all, func(o KafkaListener) bool { return o.Name == name }):
			return nil, fmt.Errorf("kafka.listeners: %s is there twice", name)
		case l.TLS && c.TLSCert == "" && k.TLSCert == "":
			return nil, fmt.Errorf("kafka.listeners: %s needs a certificate: tls.cert or kafka.tls.cert", name)
		}
		if _, err := addrKind.parse(address); err != nil {
			return nil, fmt.Errorf("kafka.listeners: %q: %w", s, err)
		}
		all = append(all, l)
	}
	return all, k.advertise(all)
}

// advertise gives each of several listeners the address that its clients are told.
func (k *Kafka) advertise(all []KafkaListener) error {
	for _, s := range k.Advertised {
		name, address, ok := strings.Cut(s, "://")
		i := slices.IndexFunc(all, func(l KafkaListener) bool { return l.Name == name })
		if !ok || i < 0 {
			return fmt.Errorf("kafka.advertised: %q: want the name of one of kafka.listeners, and ://host:port", s)
		}
		all[i].Advertised = address
	}
	for i := range all {
		if err := all[i].check(); err != nil {
			return err
		}
	}
	return nil
}

// check finds what clients could not connect to.
func (l *KafkaListener) check() error {
	if l.Advertised == "" {
		if host, _, err := net.SplitHostPort(l.Addr); err == nil && wildcard(host) {
			return fmt.Errorf("kafka.advertised: %s is every address of this machine: say which one Kafka clients shall "+
				"connect to", l.Addr)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(l.Advertised)
	switch {
	case err != nil:
		return fmt.Errorf("kafka.advertised: %q: want host:port, an IPv6 address in brackets", l.Advertised)
	case wildcard(host):
		return fmt.Errorf("kafka.advertised: %q: no client can connect to every address", l.Advertised)
	case port == "0":
		return fmt.Errorf("kafka.advertised: %q: no client can connect to port 0", l.Advertised)
	}
	_, err = addrKind.parse(l.Advertised)
	return err
}

func wildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func protocolName(tls, sasl bool) string {
	name := "PLAINTEXT"
	if tls {
		name = "SSL"
	}
	if sasl {
		name = "SASL_" + name
	}
	return name
}

// validateKafka finds what no single setting of the Kafka frontend shows.
func (c *Config) validateKafka() (errs []error) {
	if !slices.Contains(c.Frontends, "kafka") {
		return nil
	}
	k := &c.Kafka
	for _, m := range k.SASL {
		if !slices.Contains(kafkaMechanisms, m) {
			errs = append(errs, fmt.Errorf("kafka.sasl: there is no mechanism %q: there are %s", m, strings.Join(kafkaMechanisms, ", ")))
		}
	}
	if k.Partitions > k.MaxPartitions {
		errs = append(errs, fmt.Errorf("kafka.default.partitions: %d is above kafka.max.partitions, %d", k.Partitions, k.MaxPartitions))
	}
	if k.SessionMin > k.SessionMax {
		errs = append(errs, fmt.Errorf("kafka.group.session.min: %s is above kafka.group.session.max, %s", k.SessionMin, k.SessionMax))
	}
	all, err := c.KafkaListeners()
	if err != nil {
		return append(errs, err)
	}
	for _, l := range all {
		switch {
		case c.Insecure || l.SASL:
		case !loopback(l.Addr):
			errs = append(errs, fmt.Errorf("kafka: %s can be reached from other machines and nothing authenticates the callers: "+
				"use 127.0.0.1, ask them (kafka.sasl), or allow it with --insecure", l.Addr))
		case c.Authenticates():
			errs = append(errs, fmt.Errorf("kafka.listeners: %s://%s asks nobody who calls although other listeners do: "+
				"use SASL_%s, or allow it with --insecure", l.Name, l.Addr, l.Name))
		}
	}
	return errs
}
