package value

import (
	"testing"

	"queen/engine/format"
)

func TestCompact(t *testing.T) {
	for text, want := range map[string]string{
		`1`: `1`, " { \"a\" : [ 1 , 2 ] }\n": `{"a":[1,2]}`, `"a b"`: `"a b"`, `"\u00e9"`: `"\u00e9"`, `null`: `null`, `-0.0e5`: `-0.0e5`,
	} {
		if got, ok := Compact([]byte(text)); !ok || string(got) != want {
			t.Errorf("%q: %q, %v, want %q", text, got, ok, want)
		}
	}
	for _, text := range []string{"", " ", "{", "1 2", "nul", "\"\xff\"", "'a'", "01", "1.", "NaN", "\"\n\"", "[1,]"} {
		if got, ok := Compact([]byte(text)); ok {
			t.Errorf("%q passed as %q", text, got)
		}
	}
}

func TestNumber(t *testing.T) {
	whole := func(i int64) format.Number { return format.Number{Kind: format.IntNumber, Int: i} }
	float := func(f float64) format.Number { return format.Number{Kind: format.FloatNumber, Float: f} }
	for text, want := range map[string]format.Number{
		"0": whole(0), "-7": whole(-7), "9223372036854775807": whole(1<<63 - 1), "9223372036854775808": float(1 << 63), "1.0": float(1),
		"1e2": float(100), "1e999": {}, `"1"`: {}, "true": {}, "null": {}, "": {}, "[1]": {},
	} {
		if got := Number([]byte(text)); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}
