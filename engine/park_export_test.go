package engine

// OpenOver opens a node as OpenLocal does, over a sequencer that wraps the built-in one; without a lock.
func OpenOver(cfg Config, wrap func(Sequencer) Sequencer) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.FS.MkdirAll(cfg.Dir); err != nil {
		return nil, err
	}
	log, err := openLog(cfg)
	if err != nil {
		return nil, err
	}
	return Open(cfg, wrap(NewLocal(log, cfg.Fatal)))
}

// Parked is how many pops wait.
func (n *Node) Parked() int { return n.park.count() }
