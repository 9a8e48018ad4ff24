package frontendkafka

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// configName is one name that a topic, a group or a broker can be configured by.
type configName struct {
	name string
	kind kmsg.ConfigType
	// def is the value of what nobody configured.
	def string
	// check tells what is wrong with a value; nil takes what kind does.
	check func(string) error
	// synonym is the broker's name of the same setting.
	synonym string
	doc     string
	// fixed can not be changed by clients.
	fixed bool
}

// configNames are the names of one type of resource.
type configNames []configName

func (n configNames) find(name string) *configName {
	for i := range n {
		if n[i].name == name {
			return &n[i]
		}
	}
	return nil
}

// valid tells what is wrong with a value of the name.
func (c *configName) valid(value string) error {
	var err error
	switch c.kind {
	case kmsg.ConfigTypeBoolean:
		if l := strings.ToLower(value); l != "true" && l != "false" {
			err = fmt.Errorf("want true or false")
		}
	case kmsg.ConfigTypeInt:
		err = within32(math.MinInt32, math.MaxInt32)(value)
	case kmsg.ConfigTypeLong:
		err = within64(math.MinInt64)(value)
	case kmsg.ConfigTypeDouble:
		err = between(-math.MaxFloat64, math.MaxFloat64)(value)
	}
	if err == nil && c.check != nil {
		err = c.check(value)
	}
	if err == nil && len(value) > configValueMax {
		err = fmt.Errorf("at most %d bytes", configValueMax)
	}
	if err != nil {
		return fmt.Errorf("invalid value %.64q for configuration %s: %w", value, c.name, err)
	}
	return nil
}

// configValueMax bounds one value: all names of a resource fit into a row.
const configValueMax = 1024

// within32 takes whole numbers from low to high.
func within32(low, high int64) func(string) error {
	return func(s string) error {
		if n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64); err != nil || n < low || n > high {
			return fmt.Errorf("want a whole number from %d to %d", low, high)
		}
		return nil
	}
}

// within64 takes whole numbers from low on.
func within64(low int64) func(string) error { return within32(low, math.MaxInt64) }

func between(low, high float64) func(string) error {
	return func(s string) error {
		if n, err := strconv.ParseFloat(strings.TrimSpace(s), 64); err != nil || !(n >= low && n <= high) {
			return fmt.Errorf("want a number from %g to %g", low, high)
		}
		return nil
	}
}

// oneOf takes one of the words.
func oneOf(words ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("want one of %s", strings.Join(words, ", "))
		}
		return nil
	}
}

// someOf takes a list of the words, at least one.
func someOf(words ...string) func(string) error {
	return func(s string) error {
		for _, w := range strings.Split(s, ",") {
			if !slices.Contains(words, strings.TrimSpace(w)) {
				return fmt.Errorf("want a list of %s", strings.Join(words, ", "))
			}
		}
		return nil
	}
}

// throttled takes "*" or a list of partition:broker, or nothing.
func throttled(s string) error {
	if s == "" || s == "*" {
		return nil
	}
	for _, pair := range strings.Split(s, ",") {
		a, b, ok := strings.Cut(strings.TrimSpace(pair), ":")
		_, bad := strconv.ParseUint(a, 10, 31)
		_, worse := strconv.ParseUint(b, 10, 31)
		if !ok || bad != nil || worse != nil {
			return fmt.Errorf("want * or a list of partition:broker")
		}
	}
	return nil
}
