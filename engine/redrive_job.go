package engine

import (
	"encoding/binary"
	"errors"
	"strconv"
	"unicode/utf8"

	"queen/engine/format"
)

// RedriveRequest selects the dead letters that a job moves back to the tails of their partitions.
type RedriveRequest struct {
	Queue string
	Group string // "" means all
	Error string // substring of the reason; "" means all
	// From and To bound when they failed, To exclusive; 0 is no bound. What fails after the job began is never its.
	From, To format.Wall
	// PerSecond bounds the moves of a second; 0 is no bound.
	PerSecond int
	// GroupOnly has each copy handed to the consumer group that gave it up only; else every group is.
	GroupOnly bool
}

// RedriveState is how far a job is.
type RedriveState uint8

const (
	RedriveRunning RedriveState = 1
	// RedriveDone: everything selected was looked at; what could not be moved is in Failed.
	RedriveDone RedriveState = 2
	// RedriveFailed: the job ended early, LastError says why.
	RedriveFailed RedriveState = 3
)

// RedriveJob is a job as it stands. A crash may lose what the last second counted, never a message: a moved dead
// letter is gone, and one that is not moved is still there.
type RedriveJob struct {
	RedriveRequest
	ID     string
	Tenant format.Tenant
	State  RedriveState
	// Created and Ended are calendar time; Ended is 0 while it runs.
	Created, Ended format.Wall
	// Total is what was selected when the job began; with AtLeast there was more.
	Total   uint64
	AtLeast bool
	// Moved were appended and removed; Duplicates were inside their target's dedup window and Failed refused: both
	// stay. Gone were removed by somebody else meanwhile.
	Moved, Duplicates, Failed, Gone uint64
	LastError                       string

	until  format.Wall         // what failed before it is selected
	left   format.DeadLetterID // the newest one that was looked at and stays
	leftAt format.Wall         // when that failed
}

// Remaining is how many of the selected ones were not looked at yet.
func (j *RedriveJob) Remaining() uint64 {
	seen := j.Moved + j.Duplicates + j.Failed + j.Gone
	if j.State != RedriveRunning || seen > j.Total {
		return 0
	}
	return j.Total - seen
}

// RedriveCount is what a job would move.
type RedriveCount struct {
	Count   uint64
	AtLeast bool // counting ended at its bound
	Sample  []DeadLetter
}

// Bounds of a request.
const (
	maxRedriveError = 1 << 10 // bytes of the filter
	maxRedriveRate  = 1_000_000
	maxLastError    = 512
)

func (r *RedriveRequest) check() *Error {
	switch {
	case len(r.Error) > maxRedriveError:
		return errBad("error", strconv.Itoa(maxRedriveError)+" bytes", "the text to look for is too long")
	case r.From < 0 || r.To < 0 || r.To != 0 && r.From >= r.To:
		return errBad("to", "after from", "the dead letters of an empty time were asked for")
	case r.PerSecond < 0 || r.PerSecond > maxRedriveRate:
		return errBad("ratePerSecond", "1 to "+strconv.Itoa(maxRedriveRate), "not a rate of moves")
	}
	return checkNames(r.Queue, r.Group, "group")
}

// redriveVersion is the version of a job's row.
const redriveVersion = 1

// Bits of a job's row.
const (
	redriveAtLeast = 1 << iota
	redriveGroupOnly
	redriveBits = 1<<iota - 1
)

func (j *RedriveJob) encode() []byte {
	b := append(make([]byte, 0, 256), redriveVersion, byte(j.State), 0)
	if j.AtLeast {
		b[2] |= redriveAtLeast
	}
	if j.GroupOnly {
		b[2] |= redriveGroupOnly
	}
	b = append(append(b, j.Tenant[:]...), j.left[:]...)
	for _, s := range j.texts() {
		b = append(binary.AppendUvarint(b, uint64(len(*s))), *s...)
	}
	walls, counts := j.numbers()
	for _, w := range walls {
		b = binary.AppendUvarint(b, uint64(*w))
	}
	b = binary.AppendUvarint(b, uint64(j.PerSecond))
	for _, c := range counts {
		b = binary.AppendUvarint(b, *c)
	}
	return b
}

func (j *RedriveJob) texts() []*string { return []*string{&j.Queue, &j.Group, &j.Error, &j.LastError} }

func (j *RedriveJob) numbers() ([]*format.Wall, []*uint64) {
	return []*format.Wall{&j.From, &j.To, &j.until, &j.Created, &j.Ended, &j.leftAt},
		[]*uint64{&j.Total, &j.Moved, &j.Duplicates, &j.Failed, &j.Gone}
}

var errRedriveRow = errors.New("engine: the row of a redrive job is damaged or of a later version")

func decodeRedrive(row AdminRow) (*RedriveJob, error) {
	b := row.Value
	if len(b) < 35 || b[0] != redriveVersion || b[1] < byte(RedriveRunning) || b[1] > byte(RedriveFailed) || b[2] > redriveBits {
		return nil, errRedriveRow
	}
	j := &RedriveJob{ID: row.Name, State: RedriveState(b[1]), AtLeast: b[2]&redriveAtLeast != 0}
	j.GroupOnly = b[2]&redriveGroupOnly != 0
	copy(j.Tenant[:], b[3:19])
	copy(j.left[:], b[19:35])
	b = b[35:]
	ok := true
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > 1<<62 {
			ok, b = false, nil
			return 0
		}
		b = b[n:]
		return v
	}
	for _, s := range j.texts() {
		n := number()
		if !ok || n > uint64(len(b)) {
			return nil, errRedriveRow
		}
		*s, b = string(b[:n]), b[n:]
	}
	walls, counts := j.numbers()
	for _, w := range walls {
		*w = format.Wall(number())
	}
	j.PerSecond = int(number())
	for _, c := range counts {
		*c = number()
	}
	if !ok || len(b) > 0 {
		return nil, errRedriveRow
	}
	return j, nil
}

// fail counts one that stays because of err.
func (j *RedriveJob) fail(err error) {
	j.Failed++
	j.because(err)
}

func (j *RedriveJob) because(err error) {
	s := err.Error()
	if len(s) > maxLastError {
		s = s[:maxLastError]
		for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) {
			s = s[:len(s)-1]
		}
	}
	j.LastError = s
}
