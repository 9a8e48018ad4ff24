package ops

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// kind is what an option takes.
type kind int

const (
	number kind = iota
	flag
	words
)

func (k kind) String() string { return [...]string{"a whole number", "true or false", "a text"}[k] }

// option is one option of a queue, as a manifest and the API name it.
type option struct {
	key  string
	kind kind
	// removes says that a change of it can remove messages.
	removes bool
}

// options are all of them, in the order in which manifests have them. A test holds the list against the API's document.
var options = []option{
	{"leaseTime", number, false}, {"retryLimit", number, false}, {"priority", number, false}, {"retryDelay", number, false},
	{"maxSize", number, false}, {"ttl", number, true}, {"deadLetterQueue", flag, false}, {"dlqAfterMaxRetries", flag, false},
	{"delayedProcessing", number, false}, {"windowBuffer", number, false}, {"retentionSeconds", number, true},
	{"completedRetentionSeconds", number, true}, {"retentionEnabled", flag, true}, {"encryptionEnabled", flag, false},
	{"maxWaitTimeSeconds", number, true}, {"minPopWaitTime", number, false}, {"dedupWindowSeconds", number, false},
	{"retentionSinkHold", words, true}, {"retentionSinkHoldMaxSeconds", number, true}, {"maxDeliveries", number, false},
	{"kafkaPartitions", number, false}, {"retentionBytes", number, true}, {"retentionMs", number, true}, {"dlqScope", words, false},
	{"compactKeys", flag, true}, {"tombstoneMs", number, true}, {"minCompactionLagMs", number, true},
	{"maxCompactionLagMs", number, true}, {"compactDirtyPermille", number, true},
}

// OptionNames are the options that a manifest may have.
func OptionNames() (names []string) {
	for _, o := range options {
		names = append(names, o.key)
	}
	return names
}

func optionOf(key string) *option {
	if i := slices.IndexFunc(options, func(o option) bool { return o.key == key }); i >= 0 {
		return &options[i]
	}
	return nil
}

// read checks a value and gives it its one form.
func (o *option) read(raw json.RawMessage) (json.RawMessage, error) {
	var target any
	switch o.kind {
	case number:
		target = new(int64)
	case flag:
		target = new(bool)
	default:
		target = new(string)
	}
	if string(raw) == "null" || json.Unmarshal(raw, target) != nil {
		return nil, fmt.Errorf("option %s must be %v, not %s", o.key, o.kind, raw)
	}
	return json.Marshal(target)
}

// nearest is the name that a typed one was perhaps meant to be; "" when none is near.
func nearest(name string, among []string) string {
	best, bestAt := "", 4
	for _, n := range among {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < bestAt {
			best, bestAt = n, d
		}
	}
	return best
}

// distance is how many bytes must be put in, taken out or changed to make one text of another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// unknown refuses a key by its name.
func unknown(what, name string, among []string) error {
	if near := nearest(name, among); near != "" {
		return fmt.Errorf("there is no %s %q: did you mean %s?", what, name, near)
	}
	return fmt.Errorf("there is no %s %q: there are %s", what, name, strings.Join(among, ", "))
}
