package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// kind is one way of writing a value as text. Every value has a text form, the same in flags, environment and file.
type kind[T any] struct {
	name  string
	parse func(string) (T, error)
	print func(T) string
}

// field is a pflag.Value that fills one field of a Config.
type field[T any] struct {
	kind *kind[T]
	to   *T
}

var _ pflag.Value = field[string]{}

func (f field[T]) String() string { return f.kind.print(*f.to) }
func (f field[T]) Type() string   { return f.kind.name }

func (f field[T]) Set(s string) error {
	v, err := f.kind.parse(s)
	if err == nil {
		*f.to = v
	}
	return err
}

func text(to *string) pflag.Value { return field[string]{&textKind, to} }
func addr(to *string) pflag.Value { return field[string]{&addrKind, to} }
func flag(to *bool) pflag.Value   { return field[bool]{&boolKind, to} }
func list(to *[]string) pflag.Value {
	return field[[]string]{&listKind, to}
}
func level(to *slog.Level) pflag.Value { return field[slog.Level]{&levelKind, to} }

// size is a number of bytes of at least least. Zero is refused where it would mean "the default" further down.
func size(to *int64, least int64) pflag.Value {
	return field[int64]{&kind[int64]{"size", func(s string) (int64, error) {
		n, err := parseSize(s)
		if err == nil && n < least {
			err = fmt.Errorf("want at least %s", printSize(least))
		}
		return n, err
	}, printSize}, to}
}

// duration is more than zero.
func duration(to *time.Duration) pflag.Value {
	return field[time.Duration]{&kind[time.Duration]{"duration", func(s string) (time.Duration, error) {
		d, err := parseDuration(s)
		if err == nil && d <= 0 {
			err = errors.New("want more than 0")
		}
		return d, err
	}, printDuration}, to}
}

// durationOrEver is more than zero, or less than zero for ever.
func durationOrEver(to *time.Duration) pflag.Value {
	return field[time.Duration]{&kind[time.Duration]{"duration", func(s string) (time.Duration, error) {
		d, err := parseDuration(s)
		if err == nil && d == 0 {
			err = errors.New("want more than 0, or less than 0 for ever")
		}
		return d, err
	}, printDuration}, to}
}

// durationOrNone is zero or more.
func durationOrNone(to *time.Duration) pflag.Value {
	return field[time.Duration]{&kind[time.Duration]{"duration", func(s string) (time.Duration, error) {
		d, err := parseDuration(s)
		if err == nil && d < 0 {
			err = errors.New("want 0 or more")
		}
		return d, err
	}, printDuration}, to}
}

// networks is a list of addresses and networks.
func networks(to *[]netip.Prefix) pflag.Value {
	return field[[]netip.Prefix]{&kind[[]netip.Prefix]{"list", parseNetworks, printNetworks}, to}
}

func parseNetworks(s string) (out []netip.Prefix, err error) {
	words, err := listKind.parse(s)
	for _, word := range words {
		p, err := netip.ParsePrefix(word)
		if err != nil {
			addr, err := netip.ParseAddr(word)
			if err != nil {
				return nil, errors.New("want addresses and networks such as 10.0.0.7 or 10.0.0.0/8")
			}
			p = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		}
		out = append(out, p.Masked())
	}
	return out, err
}

func printNetworks(l []netip.Prefix) string {
	words := make([]string, len(l))
	for i, p := range l {
		words[i] = p.String()
	}
	return strings.Join(words, ",")
}

// whole is an integer within a range.
func whole(to *int, low, high int) pflag.Value {
	return field[int]{&kind[int]{"int", func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("want a whole number from %d to %d", low, high)
		}
		return n, nil
	}, strconv.Itoa}, to}
}

// choice is one of a few words.
func choice(to *string, words ...string) pflag.Value {
	return field[string]{&kind[string]{strings.Join(words, "|"), func(s string) (string, error) {
		if !slices.Contains(words, s) {
			return "", errors.New("want " + strings.Join(words, " or "))
		}
		return s, nil
	}, func(s string) string { return s }}, to}
}

var textKind = kind[string]{"string", func(s string) (string, error) { return s, nil }, func(s string) string { return s }}

var addrKind = kind[string]{"host:port", func(s string) (string, error) {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", errors.New("want host:port")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", fmt.Errorf("port %q: want a number from 0 to 65535", port)
	}
	return s, nil
}, func(s string) string { return s }}

// boolKind is strict: a word that is nearly true would otherwise switch something off in silence.
var boolKind = kind[bool]{"bool", func(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New("want true or false")
}, strconv.FormatBool}

var listKind = kind[[]string]{"list", func(s string) ([]string, error) {
	var out []string
	for one := range strings.SplitSeq(s, ",") {
		if one = strings.TrimSpace(one); one != "" {
			out = append(out, one)
		}
	}
	return out, nil
}, func(l []string) string { return strings.Join(l, ",") }}

var levelKind = kind[slog.Level]{"level", func(s string) (slog.Level, error) {
	switch s {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, errors.New("want debug, info, warn or error")
}, func(l slog.Level) string { return strings.ToLower(l.String()) }}

// sizeUnits are the units of sizes; the larger ones first, so that the longest exact one is printed.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

func parseSize(s string) (int64, error) {
	digits, unit := s, int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			digits, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, errors.New("want a size such as 64MiB or 1000000")
	}
	return n * unit, nil
}

func printSize(n int64) string {
	for _, u := range sizeUnits[:4] {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

const day = 24 * time.Hour

// parseDuration adds whole days to what Go reads. A number without a unit is refused, except 0.
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseInt(days, 10, 32); err == nil && n < math.MaxInt64/int64(day) && n > -1<<15 {
			return time.Duration(n) * day, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("want a duration with its unit, such as 500ms, 15s or 30d")
	}
	return d, nil
}

func printDuration(d time.Duration) string {
	if d != 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	s = strings.Replace(s, "m0s", "m", 1)
	return strings.Replace(s, "h0m", "h", 1)
}
