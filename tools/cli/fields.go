package cli

import (
	"cmp"
	"errors"
	"io"
	"reflect"
	"strings"
)

// Field is one member of a row's JSON form, or one column that no member stands for: what -o help prints.
type Field struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Column string `json:"column"`
	Help   string `json:"help"`
}

var fieldColumns = []Column[Field]{
	{Head: "field", Cell: func(f Field) string { return f.Name }},
	{Head: "type", Cell: func(f Field) string { return f.Type }},
	{Head: "column", Cell: func(f Field) string { return f.Column }},
	{Head: "what", Cell: func(f Field) string { return f.Help }},
}

// Fields are the members of R as encoding/json names them, each with its column, then the columns that are none of them.
func Fields[R any](columns []Column[R]) (fields []Field) {
	if t := reflect.TypeFor[R](); t.Kind() == reflect.Struct {
		fields = members(t, "")
	}
	for _, c := range columns {
		column := c.Head
		if c.Wide {
			column += " (wide)"
		}
		f := member(fields, cmp.Or(c.Field, c.Head))
		if f == nil {
			kind := "value"
			if len(fields) > 0 && reflect.TypeFor[R]().Kind() == reflect.Struct {
				kind = "cell"
			}
			fields = append(fields, Field{Name: c.Head, Type: kind, Column: column, Help: c.Help})
			continue
		}
		f.Column, f.Help = column, c.Help
	}
	return fields
}

// member finds the field that a column shows: "created at" shows createdAt, "pending" shows messages.pending.
func member(fields []Field, head string) *Field {
	want := strings.ToLower(strings.ReplaceAll(head, " ", ""))
	for i := range fields {
		name := strings.ToLower(fields[i].Name)
		if name == want || strings.HasSuffix(name, "."+want) {
			return &fields[i]
		}
	}
	return nil
}

func members(t reflect.Type, prefix string) (fields []Field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() || name == "-":
			continue
		case f.Anonymous && name == "":
			fields = append(fields, members(f.Type, prefix)...)
			continue
		case name == "":
			name = f.Name
		}
		if f.Type.Kind() == reflect.Struct {
			fields = append(fields, members(f.Type, prefix+name+".")...)
			continue
		}
		fields = append(fields, Field{Name: prefix + name, Type: typeName(f.Type)})
	}
	return fields
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "json"
		}
		return "list of " + typeName(t.Elem())
	case reflect.Map, reflect.Struct:
		return "object"
	case reflect.Interface:
		return "json"
	}
	return "number"
}

// printFields answers -o help.
func printFields(out io.Writer, fields []Field) error {
	p := NewPrinter(out, "table", fieldColumns)
	return errors.Join(p.AddAll(fields), p.Close())
}
