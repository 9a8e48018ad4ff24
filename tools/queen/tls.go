package main

import (
	"fmt"
	"log/slog"
	"time"

	"queen/tools/certs"
	"queen/tools/config"
)

// endsSoon is how long before its end a certificate is worth a line in the log.
const endsSoon = 14 * 24 * time.Hour

// openCerts reads the certificate of the listeners; nil when there is none.
func openCerts(c *config.Config, log *slog.Logger) (*certs.Store, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	s, err := certs.Open(certs.Options{Cert: c.TLSCert, Key: c.TLSKey, ClientCA: c.TLSClientCA, Now: time.Now,
		Told: told(log, "tls.cert")})
	if err != nil {
		return nil, fmt.Errorf("tls.cert: %w", err)
	}
	tellEnd(log, "tls.cert", s)
	return s, nil
}

// tellEnd warns of a certificate that ends soon.
func tellEnd(log *slog.Logger, setting string, s *certs.Store) {
	if ends := s.Ends(); time.Until(ends) < endsSoon {
		log.Warn("the certificate ends soon", "event", "tls_ends_soon", "setting", setting, "ends", ends.UTC().Format(time.RFC3339))
	}
}
