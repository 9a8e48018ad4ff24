package format

import (
	"math/bits"
	"testing"
)

// Goal: nobody renumbers what is on disk. Method: every number again, as a literal. A line here may be
// added; none may change.
func TestPinnedNumbers(t *testing.T) {
	pins := []struct {
		name      string
		got, want uint64
	}{
		{"KindGenesis", uint64(KindGenesis), 1}, {"KindTerm", uint64(KindTerm), 2}, {"KindTick", uint64(KindTick), 3},
		{"KindAppend", uint64(KindAppend), 4}, {"KindPop", uint64(KindPop), 5}, {"KindAck", uint64(KindAck), 6},
		{"KindExtend", uint64(KindExtend), 7}, {"KindRelease", uint64(KindRelease), 8}, {"KindSkip", uint64(KindSkip), 9},
		{"KindTrimLease", uint64(KindTrimLease), 10}, {"KindSetOffset", uint64(KindSetOffset), 11},
		{"KindRegister", uint64(KindRegister), 12}, {"KindTxn", uint64(KindTxn), 13}, {"KindLock", uint64(KindLock), 14},
		{"KindKV", uint64(KindKV), 15}, {"KindTimer", uint64(KindTimer), 16}, {"KindFire", uint64(KindFire), 17},
		{"KindRedrive", uint64(KindRedrive), 18}, {"KindReveal", uint64(KindReveal), 19}, {"KindRetain", uint64(KindRetain), 20},
		{"KindTrim", uint64(KindTrim), 21}, {"KindProducer", uint64(KindProducer), 22}, {"KindEndTxn", uint64(KindEndTxn), 23},
		{"KindGroup", uint64(KindGroup), 24}, {"KindConfigure", uint64(KindConfigure), 25}, {"KindDelete", uint64(KindDelete), 26},
		{"KindSweep", uint64(KindSweep), 27}, {"KindMark", uint64(KindMark), 28}, {"KindPurge", uint64(KindPurge), 29},
		{"KindTrace", uint64(KindTrace), 30}, {"KindReport", uint64(KindReport), 31}, {"KindAdmin", uint64(KindAdmin), 32}, {"KindOnce", uint64(KindOnce), 33},
		{"KindOrigin", uint64(KindOrigin), 34},

		{"CodeOK", uint64(CodeOK), 0}, {"CodeMoved", uint64(CodeMoved), 1}, {"CodeStaleEvidence", uint64(CodeStaleEvidence), 2},
		{"CodeNeedEvidence", uint64(CodeNeedEvidence), 3}, {"CodeNotBuilt", uint64(CodeNotBuilt), 4},
		{"CodeMalformed", uint64(CodeMalformed), 5}, {"CodeUnknownPartition", uint64(CodeUnknownPartition), 6},
		{"CodeUnknownQueue", uint64(CodeUnknownQueue), 7}, {"CodeUnknownGroup", uint64(CodeUnknownGroup), 8},
		{"CodeNotLeased", uint64(CodeNotLeased), 9}, {"CodeLeaseInvalid", uint64(CodeLeaseInvalid), 10},
		{"CodePartial", uint64(CodePartial), 11}, {"CodeGone", uint64(CodeGone), 12}, {"CodeDuplicate", uint64(CodeDuplicate), 13},
		{"CodeEncryption", uint64(CodeEncryption), 14}, {"CodeUnresolvable", uint64(CodeUnresolvable), 15},
		{"CodeCommitted", uint64(CodeCommitted), 16}, {"CodeLimit", uint64(CodeLimit), 17},
		{"CodeRolledBack", uint64(CodeRolledBack), 18}, {"CodePrecondition", uint64(CodePrecondition), 19},
		{"CodeRepeated", uint64(CodeRepeated), 20}, {"CodeMismatch", uint64(CodeMismatch), 21},
		{"KVPut", uint64(KVPut), 1}, {"KVDelete", uint64(KVDelete), 2}, {"KVIncr", uint64(KVIncr), 3}, {"KVCheck", uint64(KVCheck), 4},
		{"LockAcquire", uint64(LockAcquire), 1}, {"LockRenew", uint64(LockRenew), 2}, {"LockRelease", uint64(LockRelease), 3},
		{"TimerSchedule", uint64(TimerSchedule), 1}, {"TimerCancel", uint64(TimerCancel), 2}, {"TimerFailed", uint64(TimerFailed), 3},
		{"TimerDead", uint64(TimerDead), 4}, {"TimerPause", uint64(TimerPause), 5}, {"TimerResume", uint64(TimerResume), 6},
		{"TimerPaused", uint64(TimerPaused), 6}, {"TimerResumed", uint64(TimerResumed), 7},
		{"TimerFiled", uint64(TimerFiled), 5}, {"TimerOffset", uint64(TimerOffset), 1 << 63},
		{"NotANumber", uint64(NotANumber), 0}, {"IntNumber", uint64(IntNumber), 1}, {"FloatNumber", uint64(FloatNumber), 2},
		{"KVApplied", uint64(KVApplied), 0}, {"KVExists", uint64(KVExists), 1}, {"KVAbsent", uint64(KVAbsent), 2},
		{"KVVersion", uint64(KVVersion), 3}, {"KVLimit", uint64(KVLimit), 4}, {"KVType", uint64(KVType), 5},
		{"LockHeld", uint64(LockHeld), 6}, {"LockLost", uint64(LockLost), 7},
		{"TimerScheduled", uint64(TimerScheduled), 1}, {"TimerRescheduled", uint64(TimerRescheduled), 2},
		{"TimerCancelled", uint64(TimerCancelled), 3}, {"TimerAbsent", uint64(TimerAbsent), 4},
		{"KeyedRowVersion", KeyedRowVersion, 1},

		{"IDsNone", uint64(IDsNone), 0}, {"IDsAll", uint64(IDsAll), 1}, {"IDsSome", uint64(IDsSome), 2},
		{"FrameNative", uint64(FrameNative), 1}, {"FrameKafka", uint64(FrameKafka), 2},
		{"CodecNone", uint64(CodecNone), 0}, {"CodecZstd", uint64(CodecZstd), 1},
		{"StartNew", uint64(StartNew), 1}, {"StartAll", uint64(StartAll), 2}, {"StartFrom", uint64(StartFrom), 3},
		{"AckCompleted", uint64(AckCompleted), 1}, {"AckRetry", uint64(AckRetry), 2}, {"AckFailed", uint64(AckFailed), 3},
		{"AckDLQ", uint64(AckDLQ), 4},
		{"AdminEphemeral", uint64(AdminEphemeral), 1}, {"AdminSwitch", uint64(AdminSwitch), 2},
		{"AdminKey", uint64(AdminKey), 3}, {"AdminPlan", uint64(AdminPlan), 4}, {"AdminStream", uint64(AdminStream), 5},
		{"AdminKafkaConfig", uint64(AdminKafkaConfig), 8}, {"AdminKafkaUser", uint64(AdminKafkaUser), 9}, {"AdminKafkaQuota", uint64(AdminKafkaQuota), 10},
		{"AdminKafkaBroker", uint64(AdminKafkaBroker), 11}, {"AdminNode", uint64(AdminNode), 16}, {"AdminTenant", uint64(AdminTenant), 17},
		{"AdminNode", uint64(AdminNode), 16},
		{"DeleteQueue", uint64(DeleteQueue), 1}, {"DeleteGroup", uint64(DeleteGroup), 2},
		{"DeletePartition", uint64(DeletePartition), 3}, {"DeleteDeadLetter", uint64(DeleteDeadLetter), 4},

		{"RecordEntry", uint64(RecordEntry), 1}, {"RecordFragment", uint64(RecordFragment), 2},
		{"RecordOutcome", uint64(RecordOutcome), 3}, {"RecordHardState", uint64(RecordHardState), 4},
		{"RecordSnapshot", uint64(RecordSnapshot), 5}, {"RecordFloor", uint64(RecordFloor), 6},
		{"RecordBootstrap", uint64(RecordBootstrap), 7}, {"RecordCut", uint64(RecordCut), 8},
		{"RecordRemoved", uint64(RecordRemoved), 9}, {"RecordFrame", uint64(RecordFrame), 10},
		{"EntryApplication", uint64(EntryApplication), 0}, {"EntryConfigChange", uint64(EntryConfigChange), 1},
		{"EntryEncoded", uint64(EntryEncoded), 2}, {"EntryMetadata", uint64(EntryMetadata), 3},
		{"MemberVoter", uint64(MemberVoter), 1}, {"MemberNonVoter", uint64(MemberNonVoter), 2},
		{"MemberWitness", uint64(MemberWitness), 3}, {"MemberRemoved", uint64(MemberRemoved), 4},

		{"RowNative", uint64(RowNative), 1}, {"RowKafka", uint64(RowKafka), 2}, {"RowControl", uint64(RowControl), 4},
		{"RowTransactional", uint64(RowTransactional), 8}, {"RowCompacted", uint64(RowCompacted), 16},
		{"RowPartial", uint64(RowPartial), 32}, {"RowExplicitID", uint64(RowExplicitID), 64},
		{"RunRows", uint64(RunRows), 1}, {"RunIDs", uint64(RunIDs), 2},
		{"CheckpointBase", uint64(CheckpointBase), 1}, {"CheckpointDelta", uint64(CheckpointDelta), 2},
		{"SegmentSealed", uint64(SegmentSealed), 1}, {"SegmentClosed", uint64(SegmentClosed), 2},
		{"FileRowRun", uint64(FileRowRun), 1}, {"FileIDRun", uint64(FileIDRun), 2},
		{"FileCheckpoint", uint64(FileCheckpoint), 3}, {"FileKeyedDelta", uint64(FileKeyedDelta), 4},
		{"FileKeyedManifest", uint64(FileKeyedManifest), 5},

		{"BulkBit", uint64(BulkBit), 1 << 31}, {"BlockSize", BlockSize, 4096}, {"ExtentHeadSize", ExtentHeadSize, 64},
		{"RecordHeadSize", RecordHeadSize, 40}, {"FragmentHeadSize", FragmentHeadSize, 24}, {"FragmentBytes", FragmentBytes, 1 << 20},
		{"MaxExtentBytes", MaxExtentBytes, 8 << 20}, {"EntryFixedHead", EntryFixedHead, 64}, {"FrameHeadSize", FrameHeadSize, 24},
		{"SealOverhead", SealOverhead, 44}, {"SealNonce", SealNonce, 24}, {"frameSealed", frameSealed, 1}, {"appendSealed", appendSealed, 128},
		{"frameGrouped", frameGrouped, 2},
		{"MaxOrdinals", MaxOrdinals, 1 << 22}, {"BeaconSlots", BeaconSlots, 8}, {"ChunkBytes", ChunkBytes, 1 << 20},
		{"RowSpanMax", RowSpanMax, 8192}, {"PositionsPerBlock", PositionsPerBlock, 1023}, {"FencesPerBlock", FencesPerBlock, 170},
		{"EntryVersion", EntryVersion, 1}, {"SegmentVersion", SegmentVersion, 1}, {"RunVersion", RunVersion, 2},
		{"CheckpointVersion", CheckpointVersion, 1}, {"ManifestVersion", ManifestVersion, 1}, {"OutcomeVersion", OutcomeVersion, 1},
		{"ordinal 0", uint64(checkOrdinal(0)), 0x55400000}, {"ordinal 1", uint64(checkOrdinal(1)), 0xcb400001},
	}
	for _, p := range pins {
		if p.got != p.want {
			t.Errorf("%s is %d, on disk it is %d", p.name, p.got, p.want)
		}
	}
}

// Goal: the order of the options in a Configure is the order of their bits, each exactly once.
func TestPinnedOptions(t *testing.T) {
	want := []OptionMask{
		OptNamespace, OptTask, OptLeaseTime, OptRetryLimit, OptPriority, OptRetryDelay, OptMaxSize, OptTTL, OptDeadLetterQueue,
		OptDLQAfterMaxRetries, OptDelayedProcessing, OptWindowBuffer, OptRetentionSeconds, OptCompletedRetentionSeconds,
		OptRetentionEnabled, OptEncryptionEnabled, OptMaxWaitTimeSeconds, OptMinPopWaitTime, OptDedupWindowSeconds,
		OptRetentionSinkHold, OptRetentionSinkHoldMaxSeconds, OptMaxDeliveries, OptDLQScope, OptKafkaPartitions,
		OptRetentionBytes, OptRetentionMs, OptCompactKeys, OptTombstoneMs, OptMinCompactionLagMs, OptMaxCompactionLagMs,
		OptCompactDirtyPermille,
	}
	var got []OptionMask
	see := func(m OptionMask) { got = append(got, m) }
	optionFields(new(QueueOptions), func(m OptionMask, _ *string) { see(m) }, func(m OptionMask, _ *int64) { see(m) },
		func(m OptionMask, _ *bool) { see(m) })
	if len(got) != len(want) || bits.OnesCount32(uint32(OptAll)) != len(want) {
		t.Fatalf("%d options walked, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] || want[i] != 1<<i {
			t.Errorf("option %d is bit %#x, on disk it is %#x", i, got[i], uint32(1)<<i)
		}
	}
}

// Goal: options of a queue come back whole, in both forms.
func TestOptionsComeBack(t *testing.T) {
	for seed := range uint64(100) {
		o := newGen(seed).options(true)
		if got, err := ParseAllOptions(AppendAllOptions(nil, &o)); err != nil || got != o {
			t.Fatalf("%+v want %+v: %v", got, o, err)
		}
	}
}

// Goal: a queue's row of before the newest options is read, which are 0 then.
func TestOptionsOfBefore(t *testing.T) {
	o := newGen(1).options(true)
	o.CompactKeys, o.TombstoneMs, o.MinCompactionLagMs, o.MaxCompactionLagMs, o.CompactDirtyPermille = false, 0, 0, 0, 0
	for _, mask := range []OptionMask{optSecond, optFirst} {
		o.Set &= mask
		if mask == optFirst {
			o.RetentionBytes, o.RetentionMs = 0, 0
		}
		b := putUvarint(appendOptions(nil, &o, mask), uint64(o.Set))
		if got, err := ParseAllOptions(b); err != nil || got != o {
			t.Fatalf("%+v want %+v: %v", got, o, err)
		}
	}
	for _, mask := range []OptionMask{optFirst >> 1, optFirst | OptRetentionBytes, optSecond | OptCompactKeys} {
		if _, err := ParseAllOptions(putUvarint(appendOptions(nil, &o, mask), uint64(o.Set))); err == nil {
			t.Errorf("options %#x are taken for all", mask)
		}
	}
}

// Goal: file names sort like numbers and tell the two kinds of segments apart.
func TestSegmentNames(t *testing.T) {
	for s, want := range map[SegmentID]string{7: "seg-0000000007.dat", BulkBit | 7: "blk-0000000007.dat"} {
		if s.FileName() != want || s.Number() != 7 || s.IsBulk() != (s != 7) {
			t.Errorf("%s, number %d", s.FileName(), s.Number())
		}
	}
}
