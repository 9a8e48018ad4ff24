package replication

import (
	"crypto/tls"
	"crypto/x509"
	"net"
)

// A handshake is judged by what the files of TLS hold at that moment, and a connection of nodes may last for weeks behind it. So once the
// files have changed connections are ended whose other end shows a certificate of an authority that is not there any more.

// withdrawn judges the connections of a host.
type withdrawn struct {
	by    *x509.CertPool // the authorities by which they were judged last
	again bool           // what was under way then is judged once more
}

// due reports that the connections are to be judged, and by which authorities. It is asked in every round of the census: a connection that was
// begun by the former ones, and not kept yet when they changed, is met by the round after. The first round judges those from before it.
func (w *withdrawn) due(now *x509.CertPool) bool {
	changed := now != w.by
	due := changed || w.again
	w.by, w.again = now, changed
	return due
}

// endWithdrawn ends the connections of all groups that would not be made any more.
func (s *Sequencer) endWithdrawn() {
	h := s.shared
	if h.o.TLS == nil {
		return
	}
	now := h.o.TLS.To("").RootCAs
	if !h.withdrawn.due(now) {
		return
	}
	all := h.connections()
	s.loops.Go(func() { // who is at the other end is known behind the handshake, which may take some seconds
		ended := 0
		for c := range all {
			if !vouchedFor(c, now) {
				c.Close()
				ended++
			}
		}
		if ended > 0 {
			s.o.Log.Warn("connections of nodes were ended, since no authority of peer.ca vouches for the other end any more", "connections", ended)
		}
	})
}

// connections are those of nodes, at both ports and in both directions. That of a pull which this node asked for is not among them: it takes
// no part meanwhile.
func (h *host) connections() map[net.Conn]struct{} {
	all := map[net.Conn]struct{}{}
	add := func(k *conns) {
		for _, c := range k.list() {
			all[c] = struct{}{}
		}
	}
	h.mu.RLock()
	if h.mu.door != nil {
		add(&h.mu.door.conns)
	}
	for _, s := range h.mu.groups {
		add(&s.links.conns)
	}
	h.mu.RUnlock()
	if t := h.wires.Load(); t != nil {
		add(&t.in)
		add(&t.out)
	}
	return all
}

// vouchedFor reports that the certificate which a connection's other end has shown comes from one of some authorities. Without one the
// handshake has failed.
func vouchedFor(c net.Conn, by *x509.CertPool) bool {
	s, ok := c.(*tls.Conn)
	if !ok {
		return true
	}
	shown := s.ConnectionState().PeerCertificates
	if len(shown) == 0 {
		return true
	}
	o := x509.VerifyOptions{Roots: by, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	for _, between := range shown[1:] {
		o.Intermediates.AddCert(between)
	}
	_, err := shown[0].Verify(o)
	return err == nil
}
