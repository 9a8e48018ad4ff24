package main

import (
	"fmt"
	"log/slog"
	"time"

	"queen/engine/auth/live"
	"queen/engine/seal"
	"queen/tools/config"
)

// keyring is the keys of encrypted queues: one that was given, or a file that is followed.
type keyring struct {
	fixed *seal.Ring
	file  *live.Value[*seal.Ring]
}

// openKeyring reads the keys; a key that is given and unusable stops the boot, because a queue that wants encryption
// would otherwise only be found to be unwritable later.
func openKeyring(c *config.Config, log *slog.Logger) (*keyring, error) {
	if c.EncryptionKey != "" {
		ring, err := seal.NewRing(c.EncryptionKey)
		if err != nil {
			return nil, fmt.Errorf("encryption.key: %w", err)
		}
		return &keyring{fixed: ring}, nil
	}
	if c.EncryptionKeyring == "" {
		return &keyring{}, nil
	}
	file, err := live.Open(live.Options[*seal.Ring]{Paths: []string{c.EncryptionKeyring}, Now: time.Now,
		Changed: told(log, "encryption.keyring"),
		Make: func(contents [][]byte) (*seal.Ring, error) {
			ring, err := seal.ParseRing(contents[0])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.EncryptionKeyring, err)
			}
			return ring, nil
		}})
	if err != nil {
		return nil, fmt.Errorf("encryption.keyring: %w", err)
	}
	return &keyring{file: file}, nil
}

// ring is the keys now; nil is none.
func (k *keyring) ring() *seal.Ring {
	if k.file != nil {
		return k.file.Get()
	}
	return k.fixed
}
