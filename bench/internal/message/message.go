package message

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// Sizes that are part of the conditions of every measurement.
const (
	NameBytes = 20
	IDBytes   = 36
	// MinPayload is the least size a payload with a stamp can have.
	MinPayload = 64
)

// AppendPartition appends the name of a partition, NameBytes long.
func AppendPartition(b []byte, partition int) []byte {
	b = append(b, "entity-"...)
	return appendDigits(b, uint64(partition), NameBytes-len("entity-"))
}

// ParsePartition is the number in a name made by AppendPartition.
func ParsePartition(name []byte) (int, error) {
	if len(name) != NameBytes {
		return 0, fmt.Errorf("message: %q is no name of a partition", name)
	}
	n, err := strconv.ParseUint(string(name[len("entity-"):]), 10, 63)
	return int(n), err
}

func appendDigits(b []byte, n uint64, width int) []byte {
	for range width {
		b = append(b, '0')
	}
	for i := len(b) - 1; n > 0; i-- {
		b[i] = '0' + byte(n%10)
		n /= 10
	}
	return b
}

const hexDigits = "0123456789abcdef"

// AppendID appends a transaction id, IDBytes long and in the shape of a UUID: the run, the partition and the number of
// the message in it.
func AppendID(b []byte, run uint64, partition, n uint32) []byte {
	hi, lo := run, uint64(partition)<<32|uint64(n)
	for i := range 16 {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b = append(b, '-')
		}
		word := hi
		if i >= 8 {
			word = lo
		}
		v := byte(word >> (56 - 8*(i%8)))
		b = append(b, hexDigits[v>>4], hexDigits[v&15])
	}
	return b
}

// filling is where the text of payloads comes from.
var filling = func() []byte {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([]byte, 1<<20)
	for i := range out {
		out[i] = letters[rng.IntN(len(letters))]
	}
	return out
}()

// AppendPayload appends exactly size bytes of JSON, at least MinPayload: message n of its partition, meant to be sent at
// the given microseconds since the epoch. mix varies the text.
func AppendPayload(b []byte, size int, n uint32, at int64, mix uint64) []byte {
	end := len(b) + size
	b = append(b, `{"n":`...)
	b = strconv.AppendUint(b, uint64(n), 10)
	b = append(b, `,"t":`...)
	b = strconv.AppendInt(b, at, 10)
	b = append(b, `,"text":"`...)
	return append(AppendText(b, end-len(`"}`)-len(b), mix), `"}`...)
}

// AppendText appends size bytes of text that hardly compresses; mix varies it.
func AppendText(b []byte, size int, mix uint64) []byte {
	for size > 0 {
		from := int(mix * 0x9e3779b97f4a7c15 >> 44 % uint64(len(filling)))
		piece := filling[from:min(len(filling), from+size)]
		b = append(b, piece...)
		size -= len(piece)
		mix++
	}
	return b
}

// Stamp is what a payload says about itself.
type Stamp struct {
	N  uint64
	At int64
}

// ParseStamp reads the stamp of a payload; false for one that AppendPayload did not make.
func ParseStamp(payload []byte) (s Stamp, ok bool) {
	rest, ok := cut(payload, `{"n":`)
	if !ok {
		return s, false
	}
	s.N, rest = digits(rest)
	if rest, ok = cut(rest, `,"t":`); !ok {
		return s, false
	}
	at, rest := digits(rest)
	s.At = int64(at)
	_, ok = cut(rest, `,"text":"`)
	return s, ok
}

func cut(b []byte, prefix string) ([]byte, bool) {
	if len(b) < len(prefix) || string(b[:len(prefix)]) != prefix {
		return b, false
	}
	return b[len(prefix):], true
}

func digits(b []byte) (n uint64, rest []byte) {
	for len(b) > 0 && b[0] >= '0' && b[0] <= '9' {
		n = n*10 + uint64(b[0]-'0')
		b = b[1:]
	}
	return n, b
}
