package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
)

// dump writes what a value holds into a file, whatever is behind it, each pointer once: what a failed run leaves to read.
func dump(path string, v any) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	(&dumper{w, map[uintptr]bool{}}).value(reflect.ValueOf(v), 0)
	return w.Flush()
}

type dumper struct {
	w    io.Writer
	seen map[uintptr]bool
}

func (d *dumper) value(v reflect.Value, depth int) {
	indent := "\n" + strings.Repeat(" ", depth+1)
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || d.seen[v.Pointer()] {
			fmt.Fprintf(d.w, "%v", v)
			return
		}
		d.seen[v.Pointer()] = true
		d.value(v.Elem(), depth)
	case reflect.Interface:
		d.value(v.Elem(), depth)
	case reflect.Struct:
		for i := range v.NumField() {
			fmt.Fprint(d.w, indent, v.Type().Field(i).Name, ": ")
			d.value(v.Field(i), depth+1)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			fmt.Fprint(d.w, indent)
			d.value(it.Key(), depth+1)
			fmt.Fprint(d.w, " => ")
			d.value(it.Value(), depth+1)
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k != reflect.Struct && k != reflect.Pointer && k != reflect.Interface {
			fmt.Fprintf(d.w, "%v", v)
			return
		}
		for i := range v.Len() {
			fmt.Fprint(d.w, indent, i, ": ")
			d.value(v.Index(i), depth+1)
		}
	default:
		fmt.Fprintf(d.w, "%v", v)
	}
}
