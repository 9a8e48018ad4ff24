package format

import (
	"bytes"
	"encoding/binary"
	"sort"
)

// blockGolden is a sealed 4 KiB block: its checksum is the last field.
func blockGolden(name string, v interface{ Encode([]byte) }, want any, parse func([]byte) (any, error), text string) golden {
	b := make([]byte, BlockSize)
	v.Encode(b)
	return golden{name: name, bytes: b, fields: lines(text + "\n-5 zeros\n4 crc32c"), want: want, parse: parse}
}

func fileGoldens() []golden {
	segment := &SegmentHead{BulkBit | 7, 0x1122334455667788, goldenTenant, 256 << 20, 3}
	beacon := &Beacon{9, goldenTenant, 3, true, 7, 0x1122334455667788, 8192, 2, 0x99aabbccddeeff00, []BeaconGroup{{1, 1, 70, 71}}}
	runHead := &RunHead{RunIDs, 1, 9, 3, 4, IDLayout{[IDColumns]uint64{1, 300, 70, 5, 1 << 62}, [IDColumns]uint64{3, 70300, 75, 5, 1<<62 + 9}}}
	runTail := &RunTrailer{200, 2, 1, goldenWall, goldenWall + 5, 0x9a}
	checkpoint := &CheckpointHead{CheckpointDelta, 1, 9, 8, 300, 70_000, 5, goldenWall, goldenTenant, 1, 2, goldenSum}
	return append([]golden{
		blockGolden("segment_head", segment, segment, func(b []byte) (any, error) { v, err := ParseSegmentHead(b); return &v, err },
			"8 magic\n1 version\n1 minimum reader\n2 zero\n4 segment: bulk 7\n8 nonce\n16 disk\n8 file size\n8 boot epoch"),
		blockGolden("beacon_slot", beacon, beacon, func(b []byte) (any, error) { v, err := ParseBeacon(b); return &v, err },
			"8 magic\n1 version\n1 minimum reader\n1 flags: clean\n1 groups\n4 segment\n8 sequence\n8 boot epoch\n16 disk\n8 end\n"+
				"4 extent\n4 zero\n8 checksum of the extent\n8 nonce\n1 group\n7 zero\n8 replica\n8 commit\n8 last entry"),
		blockGolden("run_head", runHead, runHead, func(b []byte) (any, error) { v, err := ParseRunHead(b); return &v, err },
			"8 magic\n1 version\n1 minimum reader\n1 kind: ids\n1 group\n4 number\n8 first\n8 last\n"+
				"8 lowest counter\n8 highest\n8 lowest offset\n8 highest\n8 lowest index\n8 highest\n8 lowest ordinal\n8 highest\n8 lowest W\n8 highest"),
		blockGolden("run_trailer", runTail, runTail, func(b []byte) (any, error) {
			v, err := ParseRunTrailer(b, 5*BlockSize)
			return &v, err
		}, "8 magic\n1 version\n1 minimum reader\n6 zero\n8 rows\n4 blocks\n4 fence blocks\n8 lowest W\n8 highest W\n4 content"),
		blockGolden("checkpoint_head", checkpoint, checkpoint, func(b []byte) (any, error) {
			v, err := ParseCheckpointHead(b)
			return &v, err
		}, "8 magic\n1 version\n1 minimum reader\n1 kind: delta\n1 group\n4 chunk bytes\n8 number\n8 parent\n8 mark\n8 index\n8 T\n"+
			"8 W\n16 cluster\n4 level\n4 content version\n16 state digest"),
	}, variableGoldens()...)
}

type footerValue struct {
	Trailer  FooterTrailer
	Groups   []FooterGroup
	Replaces []SegmentID
	Second   uint32
}

func variableGoldens() []golden {
	footer := Footer{
		7, 0x1122334455667788, 3, 8192, 2, 0x99aabbccddeeff00, true, []SegmentID{5},
		[]FooterGroup{{1, 1, 70, []FooterRange{{70, 71}}, []FooterRange{{60, 69}}, 0}}, []uint32{4160, 4416},
	}
	footerBytes := footer.Append(nil)
	manifest := Manifest{
		Generation: 4, Disk: goldenTenant, Cluster: goldenLease, Boot: 3,
		Segments: []ManifestSegment{{7, SegmentClosed, 8192, 0x99aabbccddeeff00, []ManifestRange{{1, 70, 71, 70}}}},
		RowRuns:  []ManifestFile{{FileRowRun, 2, 1, 16, 40_960, goldenSum}},
		Groups: []ManifestGroup{{
			1, 1, 60, []ManifestMark{{300, 70, goldenWall, goldenSum, goldenLease}}, []ManifestCheckpoint{{300, 70, 9, 70}},
			[]ManifestFile{{FileCheckpoint, 9, 8, 9, 8192, goldenSum}},
		}},
	}
	checkpoint := CheckpointHead{Number: 9, Group: 1}
	chunk := checkpoint.FinishChunk(append(make([]byte, ChunkHeadSize), "rows"...), 2, true)
	fences := []Fence{{Partition: 65, Base: 5}, {Partition: 129, Base: 6}}
	return []golden{
		{
			name: "footer", bytes: footerBytes, fields: lines(`4 position block: crc32c over segment, block and the rest
				4 position of entry 70
				4 position of entry 71
				4084 zeros
				1 directory: replaced segments
				1 segment
				1 groups
				1 group
				1 replica
				1 cut
				1 first slot
				1 entry ranges
				1 first
				1 length - 1
				1 outcome ranges
				1 first
				1 length - 1
				4083 zeros
				8 trailer: magic
				1 version
				1 minimum reader
				1 flags: complete
				1 zero
				4 segment
				8 nonce
				8 end of the extents
				8 checksum of the last extent
				4 number of the last extent
				4 positions
				4 bytes of the directory
				4 zero
				8 xxh3-64 of the directory blocks
				8 boot epoch
				-5 zeros
				4 crc32c`),
			want: footerValue{
				FooterTrailer{7, 0x1122334455667788, 3, 8192, 2, 0x99aabbccddeeff00, true, 2, 13, sum64(footerBytes[4096:8192])},
				footer.Groups, footer.Replaces, 4416,
			},
			parse: parseFooterGolden,
		},
		{
			name: "manifest", bytes: manifest.Append(nil), want: manifest,
			parse: func(b []byte) (any, error) { return ParseManifest(b) },
			fields: lines("8 magic\n1 version\n1 minimum reader\n6 zero\n8 generation\n8 length of the body\n16 xxh3-128 of the body\n" +
				"12 zero\n4 crc32c of the head\n16 disk\n16 cluster\n1 boot epoch\n1 segments\n1 segment\n1 state: closed\n2 end\n8 checksum\n" +
				"1 groups\n1 group\n1 first\n1 last\n1 cut\n1 row runs\n1 kind\n1 number\n1 first\n1 last\n3 size\n16 xxh3-128\n1 groups\n1 group\n" +
				"1 replica\n1 floor\n1 marks\n2 number\n1 index\n8 W, zigzag\n16 chain\n16 digest\n1 checkpoints\n2 mark\n1 index\n1 file\n" +
				"1 keyed version\n1 files\n1 kind\n1 number\n1 parent\n1 number\n2 size\n16 xxh3-128"),
		},
		{
			name: "checkpoint_chunk", bytes: chunk, want: []byte("rows"),
			parse:  func(b []byte) (any, error) { v, _, err := checkpoint.ParseChunk(b, 2); return v, err },
			fields: lines("8 xxh3-64 of the rest, seed number*256+group\n4 number\n4 length, high bit: last\n4 body\n-1 zeros"),
		},
		{
			name: "fence_block", bytes: AppendFenceBlock(nil, RunRows, 3, fences), want: fences,
			parse: func(b []byte) (any, error) { return ParseFenceBlock(nil, RunRows, 3, b) },
			fields: lines("4 crc32c over block number and the rest\n4 fences\n8 partition\n8 base\n8 zero\n8 partition\n8 base\n" +
				"8 zero\n-1 zeros"),
		},
	}
}

func parseFooterGolden(b []byte) (any, error) {
	tr, err := ParseFooterTrailer(b[len(b)-BlockSize:])
	if err != nil {
		return nil, err
	}
	v := footerValue{Trailer: tr}
	if v.Groups, v.Replaces, err = tr.ParseDirectory(b[BlockSize : 2*BlockSize]); err != nil {
		return nil, err
	}
	slot, _ := v.Groups[0].Slot(71)
	block, at := PositionBlock(slot)
	v.Second, err = tr.ParsePosition(b[:BlockSize], block, at)
	return v, err
}

type recordValue struct {
	Head  RecordHead
	Value any
}

// recordGolden is one record as AppendRecord leaves it inside an extent.
func recordGolden(name string, h RecordHead, parts [][]byte, body string, value any, parse func(*RecordHead, []byte) (any, error)) golden {
	b, at := AppendRecord(make([]byte, 64), &h, parts...)
	return golden{
		name: "record_" + name, bytes: b[at:], want: recordValue{h, value},
		fields: lines("4 crc32c of the head's rest and the covered bytes\n1 kind\n1 group\n1 flags\n1 zero\n4 length\n4 covered\n" +
			"8 replica\n8 index\n8 term\n" + body),
		parse: func(b []byte) (any, error) {
			h, body, err := ParseRecord(b)
			if err != nil {
				return nil, err
			}
			v, err := parse(&h, body)
			return recordValue{h, v}, err
		},
	}
}

func recordGoldens() []golden {
	state := HardState{1, 2, 3, 4, 70}
	stateHead, stateBody := state.Record()
	snapshot := Snapshot{1, 2, 70, 3, 69, true, 60, []Member{{MemberVoter, 2, "a:1"}}, []byte("x")}
	snapshotHead, snapshotBody := snapshot.Record()
	boot := Bootstrap{1, 2, true, 3, []Member{{MemberNonVoter, 2, "a:1"}}}
	bootHead, bootBody := boot.Record()
	_, frame := goldenFrame()
	patchFrameOrdinal(frame, 5)
	stored := StoredFrame{Group: 1, Replica: 2, Index: 70, Term: 3, Partition: 65, Base: 300, W: goldenWall, Origin: 7, Count: 3,
		Flags: RowNative | RowPartial, Refused: []byte{2}, Frame: frame}
	storedHead, storedBody := stored.Record()
	entry := EntryRecord{1, 2, 70, 3, EntryConfigChange, Proposal{1, 2, 3, 4}, []byte("change")}
	var scratch [proposalSize]byte
	entryHead, prefix := entry.Head(&scratch)
	floor := PositionRecord(RecordFloor, 1, 2, 70)
	return append([]golden{
		recordGolden("hardstate", stateHead, [][]byte{stateBody}, "8 vote", state,
			func(h *RecordHead, b []byte) (any, error) { return ParseHardState(h, b) }),
		recordGolden("snapshot", snapshotHead, [][]byte{snapshotBody},
			"1 on disk\n1 config change\n1 members\n1 role: voter\n1 replica\n4 address\n2 extra\n-1 padding", snapshot,
			func(h *RecordHead, b []byte) (any, error) { return ParseSnapshot(h, b) }),
		recordGolden("bootstrap", bootHead, [][]byte{bootBody}, "1 type\n1 members\n1 role: nonvoter\n1 replica\n4 address", boot,
			func(h *RecordHead, b []byte) (any, error) { return ParseBootstrap(h, b) }),
		recordGolden("floor", floor, nil, "", nil, func(h *RecordHead, b []byte) (any, error) { return nil, ParsePosition(h, b) }),
		recordGolden("entry", entryHead, [][]byte{prefix, entry.Bytes},
			"8 key\n8 client\n8 series\n8 responded\n6 bytes\n-1 padding", entry,
			func(h *RecordHead, b []byte) (any, error) { return ParseEntryRecord(h, b) }),
		recordGolden("frame", storedHead, [][]byte{storedBody, frame}, "8 partition\n8 base\n8 W\n4 origin\n4 count\n1 row flags\n"+
			"7 zero\n1 refused\n81 frame\n-1 padding", stored,
			func(h *RecordHead, b []byte) (any, error) { return ParseStoredFrame(h, b) }),
	}, blockRecordGoldens()...)
}

func blockRecordGoldens() []golden {
	var outcome OutcomeBuilder
	outcome.Term = 3
	outcome.Begin(70, 900)
	outcome.AddResults(&Results{Refused: CodeMoved})
	outcome.AddResults(&Results{})
	outcome.AddResults(&Results{
		Items: []Result{{Kind: KindAppend}, {Kind: KindAppend, At: 1}, {Kind: KindAppend, At: 2}, {Kind: KindAppend, Code: CodeLimit}},
		Appends: []AppendResult{
			{Partition: 65, Base: 300, Count: 1, Kept: 1},
			{Partition: 65, Base: 301, Count: 3, Kept: 2, Dups: []DupResult{{At: 1}}},
			{Partition: 65, Count: 2, Dups: []DupResult{{At: 0}, {At: 1}}},
		},
	})
	outcomeHead, outcomeBody := outcome.Record(1, 2)
	var bracketed OutcomeBuilder
	bracketed.Begin(70, 0)
	bracketed.AddResults(&Results{Items: []Result{{Kind: KindTxn, Code: CodePrecondition}, {Kind: KindKV, Code: CodePrecondition}}})
	bracketed.AddResults(&Results{
		Items:   []Result{{Kind: KindOnce}, {Kind: KindTxn}, {Kind: KindAppend}},
		Appends: []AppendResult{{Partition: 65, Base: 300, Count: 1, Kept: 1}},
	})
	bracketHead, bracketBody := bracketed.Record(1, 2)
	var ended OutcomeBuilder
	ended.Begin(70, 900)
	ended.AddResults(&Results{
		Items: []Result{{Kind: KindEndTxn}}, Ends: []EndTxnResult{{From: 0, To: 2}},
		Controls: []ControlRow{{Partition: 65, Offset: 300}, {Partition: 129, Offset: 5}},
	})
	endedHead, endedBody := ended.Record(1, 2)
	var rows RowPacker
	row := Row{65, 300, 2, 7, 4160, 64, 95, goldenWall, RowNative | RowPartial, 1, 0, 3, []byte{2}}
	rows.Add(&row)
	second := row
	second.Base, second.Flags, second.Back, second.Span, second.Refused = 302, RowNative, 0, 0, nil
	rows.Add(&second)
	rowBlock := make([]byte, BlockSize)
	rows.Encode(rowBlock)
	id := IDRow{65, IDHash(goldenSum), 300, Place{70, 5}, goldenWall}
	idHead, idBlock := goldenIDs(id, IDRow{129, IDHash{1}, 70300, Place{75, 5}, goldenWall + 1})
	const packedHead = "4 crc32c\n1 version\n1 columns\n2 rows\n2 heap bytes\n6 zero\n"
	return append([]golden{
		recordGolden("outcome", outcomeHead, [][]byte{outcomeBody},
			"1 version\n3 zero\n8 frames before\n8 last index\n1 entry: first of the range\n1 length\n1 refused whole\n1 code: moved\n"+
				"1 entry: two further\n1 length\n1 frames\n1 count 1, whole\n1 partition\n2 base\n1 kept 2, partial\n1 count\n1 partition\n2 base\n"+
				"1 refused bitmap\n1 count 2, none\n1 partition\n1 code: limit\n-1 padding",
			"70 refused 1, 72: [{Code:0 Partition:65 Base:300 Count:1 Kept:1 Refused:[] IsEnd:false Controls:[]} "+
				"{Code:0 Partition:65 Base:301 Count:3 Kept:2 Refused:[2] IsEnd:false Controls:[]} "+
				"{Code:0 Partition:65 Base:0 Count:2 Kept:0 Refused:[] IsEnd:false Controls:[]} "+
				"{Code:17 Partition:0 Base:0 Count:0 Kept:0 Refused:[] IsEnd:false Controls:[]}]", parseOutcomeGolden),
		recordGolden("outcome_brackets", bracketHead, [][]byte{bracketBody},
			"1 version\n3 zero\n8 frames before\n8 last index\n1 entry: first of the range\n1 length\n1 no frames\n1 not refused\n"+
				"1 brackets\n1 code: precondition\n1 entry: the next\n1 length\n1 frames\n1 count 1, whole\n1 partition\n2 base\n"+
				"1 brackets\n1 code\n1 code\n-1 padding",
			"70: [] [19], 71: [{Code:0 Partition:65 Base:300 Count:1 Kept:1 Refused:[] IsEnd:false Controls:[]}] [0 0]", parseOutcomeGolden),
		recordGolden("outcome_end", endedHead, [][]byte{endedBody},
			"1 version\n3 zero\n8 frames before\n8 last index\n1 entry: first of the range\n1 length\n1 frames\n2 end of a transaction\n"+
				"1 controls\n1 partition\n2 offset\n2 partition\n1 offset\n-1 padding",
			"70: [{Code:0 Partition:0 Base:0 Count:0 Kept:0 Refused:[] IsEnd:true Controls:[{Partition:65 Offset:300} {Partition:129 Offset:5}]}]",
			parseOutcomeGolden),
		{
			name: "row_block", bytes: rowBlock, want: []Row{row, second}, parse: parseRowGolden,
			fields: lines(packedHead + "8 low: counter\n8 low: group\n8 low: base\n8 low: count\n8 low: segment\n8 low: position/8\n" +
				"8 low: entry offset\n8 low: length\n8 low: created\n8 low: flags\n8 low: back\n8 low: heap\n12 widths\n4 zero\n3 rows\n" +
				"-10 zeros\n9 heap: from, span, bitmap"),
		},
		{
			name: "id_block", bytes: idBlock, want: id,
			parse: func(b []byte) (any, error) {
				v, err := ParseIDBlock(idHead, b)
				var r IDRow
				if err == nil {
					v.At(v.Len()-1, &r)
				}
				return r, err
			},
			fields: lines("4 crc32c\n2 rows\n2 zero\n8 spread\n8 hash, low half\n1 counter\n3 offset\n1 index\n1 W\n" +
				"8 spread\n8 hash, low half\n1 counter\n3 offset\n1 index\n1 W\n-1 zeros"),
		},
	}, entryGoldens()...)
}

func parseRowGolden(b []byte) (any, error) {
	v, err := ParseRowBlock(b)
	if err != nil {
		return nil, err
	}
	out := make([]Row, v.Len())
	for i := range out {
		if err := v.At(i, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// entryGoldens are frames, one whole entry, and the extent that holds it.
func entryGoldens() []golden {
	msgs, frame := goldenFrame()
	explicitMsgs, explicit := goldenTimerFrame()
	packed := EncodeFrame(nil, []FrameMessage{{Payload: make([]byte, 1000)}}, FrameOptions{Compress: true})
	parseFrame := func(b []byte) (any, error) {
		var scratch []byte
		_, r, err := ReadFrame(b, &scratch)
		var out []FrameMessage
		for m := (FrameMessage{}); err == nil && r.Next(&m); {
			out = append(out, m)
		}
		if err == nil {
			err = r.Err()
		}
		return out, err
	}
	seal := Sealed{Key: 3, Nonce: []byte("abcdefghijklmnopqrstuvwx")}
	sealed := BeginSeal(bytes.Clone(frame), seal.Key, seal.Nonce)
	EndSeal(sealed)
	seal.Text = sealed[FrameHeadSize+sealedHead:] // as if the cipher changed nothing and the tag were zero
	var buf CommandBuf
	buf.AddTick()
	buf.AddAppend(&Append{
		Tenant: DefaultTenant, Queue: []byte("q"), Partition: []byte("p"), Frame: FrameNative, Count: 2, IDs: IDsNone,
	}, frame)
	var builder EntryBuilder
	header := EntryHeader{1, 2, goldenWall, 4}
	builder.Begin(header)
	builder.Add(&buf)
	entry := builder.Finish(nil)
	ext := ExtentHead{Segment: 7, Number: 2, Nonce: 0x1122334455667788, Previous: 0x99aabbccddeeff00, Records: 1, Boot: 3}
	e := EntryRecord{Group: 1, Replica: 1, Index: 70, Term: 1, Type: EntryEncoded, Bytes: entry}
	extent, _ := e.Append(make([]byte, ExtentHeadSize))
	extent = FinishExtent(extent, &ext)
	const frameHead = "4 first ordinal with check\n1 kind: native\n1 flags\n1 codec\n1 zero\n4 count\n4 raw length\n4 body length\n" +
		"4 crc32c of bytes 4..20 and body\n"
	return []golden{
		{
			name: "frame", bytes: frame, want: msgs, parse: parseFrame,
			fields: lines(frameHead + "1 flags: id, trace, sub, type, headers\n5 transaction id\n16 trace id\n4 producer sub\n" +
				"11 content type\n1 headers\n2 key\n2 value\n6 payload\n1 flags\n8 payload"),
		},
		{
			name: "frame_explicit_id", bytes: explicit, want: explicitMsgs, parse: parseFrame,
			fields: lines(frameHead + "1 flags: id, explicit id\n3 transaction id\n16 explicit id\n-1 payload"),
		},
		{
			name: "frame_zstd", bytes: packed, want: []FrameMessage{{Payload: make([]byte, 1000)}}, parse: parseFrame,
			fields: lines(frameHead + "-1 body, compressed"), decodeOnly: true,
		},
		{
			name: "frame_sealed", bytes: sealed, want: seal, parse: func(b []byte) (any, error) {
				h, body, err := ParseFrame(b)
				if err != nil {
					return nil, err
				}
				return h.OpenSeal(body)
			},
			fields: lines(frameHead + "4 key\n24 nonce\n57 ciphertext\n16 tag"),
		},
		{
			name: "entry", bytes: entry, want: header,
			parse: func(b []byte) (any, error) {
				v, err := ParseEntry(b)
				if err == nil {
					err = ValidateEntry(&v)
				}
				return v.Header, err
			},
			fields: lines("1 header byte of the replication library\n1 version\n2 zero\n4 crc32c of all but itself, to the end of the id region\n" +
				"8 epoch\n8 T\n8 W\n8 fuse\n4 commands\n4 ordinals\n4 command bytes\n4 id bytes\n4 payload bytes\n4 zero\n2 tick\n" +
				"9 append\n8 ids: payload digest\n1 ids: none\n4 frame: first ordinal 1, with check\n-1 frame: the rest"),
		},
		{
			name: "extent", bytes: extent, want: ext,
			parse: func(b []byte) (any, error) { return VerifyExtent(b) },
			fields: lines("4 magic\n1 version\n1 minimum reader\n2 zero\n4 segment\n4 number\n8 nonce\n8 checksum of the extent before\n" +
				"4 bytes of records\n4 records\n8 xxh3-64 of records and padding\n8 boot epoch\n4 zero\n4 crc32c of the head\n" +
				"40 record head\n84 entry: head, commands, ids\n81 entry: payload\n-1 padding"),
		},
	}
}

// checkOrdinal keeps the ordinal check of the pinned tests readable.
func checkOrdinal(o Ordinal) uint32 {
	var b [4]byte
	patchFrameOrdinal(b[:], o)
	return binary.LittleEndian.Uint32(b[:])
}

// goldenIDs makes a block of rows and the head of the run it stands in.
func goldenIDs(rows ...IDRow) (*RunHead, []byte) {
	var b IDBounds
	for i := range rows {
		b.Add(&rows[i])
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i].Less(&rows[j]) })
	h := &RunHead{Kind: RunIDs, Group: 1, IDs: b.Layout()}
	var p idPacker
	p.begin(&h.IDs)
	for i := range rows {
		p.add(rows[i].Spread(), &rows[i])
	}
	return h, bytes.Clone(p.encode())
}
