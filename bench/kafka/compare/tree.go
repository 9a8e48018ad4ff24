package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fleeting are fields that differ between any two clusters, or two runs of one: only whether they are set is compared.
var fleeting = map[string]bool{"ClusterID": true, "Host": true, "Port": true, "TopicID": true, "ThrottleMillis": true, "ProducerID": true,
	"MemberID": true, "LeaderID": true, "LeaderEpoch": true, "Leader": true, "NodeID": true, "ControllerID": true, "ErrorMessage": true,
	"CoordinatorID": true, "Coordinator": true, "Replicas": true, "ISR": true, "TotalBytes": true, "UsableBytes": true, "LogDir": true,
	"Dir": true, "Size": true, "Timestamp": true, "LogAppendTime": true, "SessionID": true, "CurrentLeader": true,
	"Rack": true, "LastTimestamp": true, "StartTimestamp": true, "FinalizedFeaturesEpoch": true, "AuthorizedOperations": true,
	"ClusterAuthorizedOperations": true, "SASLAuthBytes": true, "Documentation": true}

// flat is an answer as lines: where a value is, and the value. Lists are in the order of their lines, since few orders are promised.
func flat(resp kmsg.Response) map[string]string {
	out := map[string]string{}
	walk(out, "", "", reflect.ValueOf(resp).Elem())
	return out
}

func walk(out map[string]string, path, name string, v reflect.Value) {
	if fleeting[name] {
		out[path] = presence(v)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			out[path] = "null"
			return
		}
		if v.Elem().Kind() == reflect.Struct {
			out[path] = "there"
		}
		walk(out, path, name, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Name == "Version" && path == "" || f.Name == "UnknownTags" {
				continue
			}
			at := f.Name
			if path != "" {
				at = path + "." + f.Name
			}
			walk(out, at, f.Name, v.Field(i))
		}
	case reflect.Slice:
		if name == "RecordBatches" {
			out[path] = batches(v.Bytes())
			return
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			out[path] = fmt.Sprintf("%x", v.Bytes())
			return
		}
		out[path+".len"] = fmt.Sprint(v.Len())
		list(out, path, v)
	default:
		out[path] = fmt.Sprint(v.Interface())
	}
}

// list writes the elements of a list, ordered by what they say.
func list(out map[string]string, path string, v reflect.Value) {
	elements := make([]map[string]string, v.Len())
	for i := range elements {
		elements[i] = map[string]string{}
		walk(elements[i], "", "", v.Index(i))
	}
	slices.SortStableFunc(elements, func(a, b map[string]string) int { return strings.Compare(text(a), text(b)) })
	for i, e := range elements {
		for at, value := range e {
			p := fmt.Sprintf("%s[%d]", path, i)
			if at != "" {
				p += "." + at
			}
			out[p] = value
		}
	}
}

func text(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for at, value := range m {
		lines = append(lines, at+"="+value)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// presence says of a value that can not be compared whether it is there.
func presence(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "unset"
		}
		return presence(v.Elem())
	case reflect.Slice, reflect.String:
		if v.Len() == 0 {
			return "unset"
		}
		return "set"
	case reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int8:
		if v.Int() < 0 {
			return "unset"
		}
		return "set"
	}
	if v.IsZero() {
		return "unset"
	}
	return "set"
}

// bare is a path without the numbers of elements.
func bare(path string) string {
	var b strings.Builder
	skip := false
	for _, r := range path {
		switch {
		case r == '[':
			skip = true
			b.WriteString("[]")
		case r == ']':
			skip = false
		case !skip:
			b.WriteRune(r)
		}
	}
	return b.String()
}
