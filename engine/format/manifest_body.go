package format

func (m *Manifest) appendBody(b []byte) []byte {
	b = append(b, m.Disk[:]...)
	b = append(b, m.Cluster[:]...)
	b = putUvarint(b, m.Boot)
	b = putUvarint(b, uint64(len(m.Segments)))
	for i := range m.Segments {
		s := &m.Segments[i]
		b = putUvarint(b, uint64(s.Segment))
		b = append(b, byte(s.State))
		b = putUvarint(b, s.End)
		b = putU64(b, s.Checksum)
		b = putUvarint(b, uint64(len(s.Groups)))
		for _, g := range s.Groups {
			b = append(b, byte(g.Group))
			b = putUvarint(putUvarint(putUvarint(b, uint64(g.First)), uint64(g.Last)), uint64(g.Cut))
		}
	}
	b = putFiles(b, m.RowRuns)
	b = putUvarint(b, uint64(len(m.Groups)))
	for i := range m.Groups {
		b = m.Groups[i].append(b)
	}
	return b
}

func (g *ManifestGroup) append(b []byte) []byte {
	b = append(b, byte(g.Group))
	b = putUvarint(b, uint64(g.Replica))
	b = putUvarint(b, uint64(g.Floor))
	b = putUvarint(b, uint64(len(g.Marks)))
	for i := range g.Marks {
		k := &g.Marks[i]
		b = putUvarint(b, k.Number)
		b = putUvarint(b, uint64(k.Index))
		b = putVarint(b, int64(k.W))
		b = append(append(b, k.Chain[:]...), k.Digest[:]...)
	}
	b = putUvarint(b, uint64(len(g.Checkpoints)))
	for _, c := range g.Checkpoints {
		b = putUvarint(putUvarint(b, c.Mark), uint64(c.Index))
		b = putUvarint(putUvarint(b, c.File), c.Keyed)
	}
	return putFiles(b, g.Files)
}

func putFiles(b []byte, files []ManifestFile) []byte {
	b = putUvarint(b, uint64(len(files)))
	for i := range files {
		f := &files[i]
		b = append(b, byte(f.Kind))
		b = putUvarint(putUvarint(putUvarint(putUvarint(b, f.Number), f.First), f.Last), f.Size)
		b = append(b, f.Sum[:]...)
	}
	return b
}

// manifest decodes a body. Every list is bounded by the bytes that are left of it (decoder.count).
func (d *decoder) manifest() (m Manifest) {
	m.Disk, m.Cluster, m.Boot = d.uuid(), d.uuid(), d.uvarint()
	m.Segments = make([]ManifestSegment, d.count(12))
	for i := range m.Segments {
		s := &m.Segments[i]
		s.Segment, s.State = SegmentID(d.uvarint32()), SegmentState(d.enum(uint8(SegmentClosed)))
		s.End, s.Checksum = d.uvarint(), d.u64()
		s.Groups = make([]ManifestRange, d.count(4))
		for k := range s.Groups {
			s.Groups[k] = ManifestRange{
				RaftGroup(d.enum(63)), Index(d.uvarint()), Index(d.uvarint()), Index(d.uvarint()),
			}
		}
	}
	m.RowRuns = d.files()
	m.Groups = make([]ManifestGroup, d.count(6))
	for i := range m.Groups {
		d.manifestGroup(&m.Groups[i])
	}
	return m
}

func (d *decoder) manifestGroup(g *ManifestGroup) {
	g.Group, g.Replica, g.Floor = RaftGroup(d.enum(63)), Replica(d.uvarint()), Index(d.uvarint())
	g.Marks = make([]ManifestMark, d.count(35))
	for i := range g.Marks {
		g.Marks[i] = ManifestMark{d.uvarint(), Index(d.uvarint()), Wall(d.varint()), d.uuid(), d.uuid()}
	}
	g.Checkpoints = make([]ManifestCheckpoint, d.count(4))
	for i := range g.Checkpoints {
		g.Checkpoints[i] = ManifestCheckpoint{d.uvarint(), Index(d.uvarint()), d.uvarint(), d.uvarint()}
	}
	g.Files = d.files()
}

func (d *decoder) files() []ManifestFile {
	files := make([]ManifestFile, d.count(21))
	for i := range files {
		files[i] = ManifestFile{
			FileKind(d.enum(uint8(FileKeyedManifest))), d.uvarint(), d.uvarint(), d.uvarint(), d.uvarint(), d.uuid(),
		}
	}
	return files
}
