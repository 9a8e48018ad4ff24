package machine

import (
	"cmp"
	"math"
	"strconv"

	"queen/engine/format"
)

// add adds numbers as counters do: integers while both are and the sum fits, else floats. ok is false when the
// sum is none that JSON can say.
func add(a, b format.Number) (sum format.Number, ok bool) {
	if a.Kind == format.IntNumber && b.Kind == format.IntNumber {
		s := a.Int + b.Int
		return format.Number{Kind: format.IntNumber, Int: s}, (s > a.Int) == (b.Int > 0)
	}
	f := float(a) + float(b)
	return format.Number{Kind: format.FloatNumber, Float: f}, !math.IsInf(f, 0) && !math.IsNaN(f)
}

func float(n format.Number) float64 {
	if n.Kind == format.IntNumber {
		return float64(n.Int)
	}
	return n.Float
}

// compare orders numbers by value.
func compare(a, b format.Number) int {
	if a.Kind == format.IntNumber && b.Kind == format.IntNumber {
		return cmp.Compare(a.Int, b.Int)
	}
	return cmp.Compare(float(a), float(b))
}

// appendNumber writes a number as JSON text: the shortest that reads back equal.
func appendNumber(dst []byte, n format.Number) []byte {
	if n.Kind == format.IntNumber {
		return strconv.AppendInt(dst, n.Int, 10)
	}
	verb := byte('f')
	if a := math.Abs(n.Float); a != 0 && (a < 1e-6 || a >= 1e21) {
		verb = 'e'
	}
	return strconv.AppendFloat(dst, n.Float, verb, -1, 64)
}
