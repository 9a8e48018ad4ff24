package keyed

import "fmt"

// Family is the first byte of every key. It says which kind of row the key names; counts and sums
// are kept by family. The numbers are on disk and in replicated state: they never change meaning.
type Family uint8

const (
	FamilyKV          Family = 0x01 // key-value entries
	FamilyTimer       Family = 0x02 // timers and schedules
	FamilyDeadLetter  Family = 0x03 // dead letters and their counters
	FamilyCatalogue   Family = 0x04 // queues, groups, options, coordinator rows
	FamilyIdempotency Family = 0x05 // answers remembered for repeated requests
	FamilyAborted     Family = 0x06 // aborted ranges of transactions
	FamilyPosition    Family = 0x07 // what was said with committed positions

	// FamilyLast is the highest family a caller may use. Everything above is refused or is this
	// package's own. 0x21 ('!') must stay unused: badger reserves keys that begin with it.
	FamilyLast Family = 0x1f

	familySentinel Family = 0xfe // one row: what the last flush wrote
	familyTail     Family = 0xff // second halves of values too large for one row
)

// Limits of a row, in bytes. A key includes its family byte.
const (
	KeyBytesMax   = 65_000
	ValueBytesMax = 1<<20 + 64<<10
)

var familyNames = map[Family]string{
	FamilyKV: "kv", FamilyTimer: "timer", FamilyDeadLetter: "dead_letter",
	FamilyCatalogue: "catalogue", FamilyIdempotency: "idempotency", FamilyAborted: "aborted",
	FamilyPosition: "position",
	familySentinel: "sentinel", familyTail: "tail",
}

// String returns the family's name, or its number when it has none.
func (f Family) String() string {
	if name, ok := familyNames[f]; ok {
		return name
	}
	return fmt.Sprintf("family-%#02x", uint8(f))
}

// Valid says whether a caller may use the family.
func (f Family) Valid() bool { return f >= 1 && f <= FamilyLast }

// FamilyOf returns the family of a key; 0 for an empty key.
func FamilyOf(key []byte) Family {
	if len(key) == 0 {
		return 0
	}
	return Family(key[0])
}

// CheckKey refuses a key that the store could not hold: empty, too long, or of no valid family.
// badger's own refusal prints a kilobyte of the key; this one prints its length.
func CheckKey(key []byte) error {
	switch {
	case len(key) == 0:
		return fmt.Errorf("%w: empty", ErrKey)
	case len(key) > KeyBytesMax:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrKey, len(key), KeyBytesMax)
	case !FamilyOf(key).Valid():
		return fmt.Errorf("%w: %v can not be used", ErrKey, FamilyOf(key))
	}
	return nil
}

// CheckRow refuses a row that the store could not hold.
func CheckRow(key, value []byte) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if len(value) > ValueBytesMax {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrValueTooLarge, len(value), ValueBytesMax)
	}
	return nil
}
