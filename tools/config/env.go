package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// clientNames belong to the client commands, which read them by themselves.
var clientNames = map[string]bool{"QUEEN_URL": true, "QUEEN_TOKEN": true, "QUEEN_CONTEXT": true, "QUEEN_CA": true}

// injected matches what Kubernetes puts into every pod beside a Service that is called queen or queen-something. None
// of it is meant for us.
var injected = regexp.MustCompile(`^QUEEN_([A-Z0-9_]+_)?(SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?|` +
	`PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// readEnv reads our names, and those of Queen MQ through its table. Our own name wins over a translated one. Empty
// values count as absent, because compose files and unit files can not leave a name out.
func (r *Resolved) readEnv(environ []string) (layer, []error) {
	own, all := layer{}, map[string]string{}
	var errs []error
	for _, pair := range environ {
		name, text, _ := strings.Cut(pair, "=")
		if text == "" {
			continue
		}
		all[name] = text
		if !strings.HasPrefix(name, envPrefix) || clientNames[name] {
			continue
		}
		if s := byEnv(name); s != nil && s.takes(fromEnv) {
			own[s.key] = raw{text, "environment " + name}
		} else if foreign(name) == nil && !injected.MatchString(name) {
			errs = append(errs, unknown("environment", "setting", name, knownEnv()))
		}
	}
	return own, append(errs, r.translate(all, own)...)
}

// translate adds to l what the names of Queen MQ say, in the order of their table.
func (r *Resolved) translate(all map[string]string, l layer) []error {
	var errs []error
	theirs := layer{}
	for i := range upstream {
		u := &upstream[i]
		for _, name := range u.among(all) {
			if s := byEnv(name); s != nil && s.takes(fromEnv) {
				continue
			}
			text := all[name]
			switch {
			case u.key == "":
				r.Warnings = append(r.Warnings, fmt.Sprintf("environment %s has no meaning here: %s", name, u.note))
			default:
				if err := r.adopt(u, name, text, theirs); err != nil {
					errs = append(errs, fmt.Errorf("environment %s: %w, not %q", name, err, text))
				}
			}
		}
	}
	for key, v := range theirs {
		if _, ok := l[key]; !ok {
			l[key] = v
		}
	}
	return errs
}

func (r *Resolved) adopt(u *foreignName, name, text string, theirs layer) error {
	before, ok := theirs[u.key]
	if !ok {
		before = raw{text: byKey(u.key).def}
	}
	after, err := u.convert(before.text, text)
	if err != nil {
		return err
	}
	place := "environment " + name
	if ok {
		place = before.place + ", " + name
	}
	theirs[u.key] = raw{after, place}
	r.Warnings = append(r.Warnings, fmt.Sprintf("environment %s is taken as %s: its name here is %s",
		name, u.key, byKey(u.key).envName()))
	return nil
}

// converter makes the text of our setting from the value of an upstream name; before is the setting's text so far.
type converter func(before, value string) (string, error)

func same(_, value string) (string, error) { return value, nil }

// withKafka adds the Kafka frontend to those that run.
func withKafka(before, value string) (string, error) {
	on, err := boolKind.parse(value)
	if err != nil || !on {
		return before, err
	}
	return before + ",kafka", nil
}

// algorithm takes "auto" for all that the keys can verify.
func algorithm(_, value string) (string, error) {
	if value == "auto" {
		return "", nil
	}
	return value, nil
}

// number checks a whole number and prints it with a unit.
func number(unit string) converter {
	return func(_, value string) (string, error) {
		if _, err := strconv.ParseUint(value, 10, 63); err != nil {
			return "", errors.New("want a whole number")
		}
		return value + unit, nil
	}
}

func millis(_, value string) (string, error) {
	n, err := strconv.ParseUint(value, 10, 40)
	if err != nil {
		return "", errors.New("want a number of milliseconds")
	}
	return printDuration(time.Duration(n) * time.Millisecond), nil
}

func hostOf(before, value string) (string, error) {
	_, port, err := net.SplitHostPort(before)
	return net.JoinHostPort(strings.Trim(value, "[]"), port), err
}

func portOf(before, value string) (string, error) {
	host, _, err := net.SplitHostPort(before)
	return net.JoinHostPort(host, value), err
}

func jsonOrText(_, value string) (string, error) {
	v, err := boolKind.parse(value)
	if err != nil {
		return "", err
	}
	if v {
		return "json", nil
	}
	return "text", nil
}

// levelWord takes the levels of Queen MQ: trace is the same as debug here.
func levelWord(_, value string) (string, error) {
	value = strings.ToLower(value)
	if value == "trace" {
		value = "debug"
	}
	_, err := levelKind.parse(value)
	return value, err
}
