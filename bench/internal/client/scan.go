package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// scanner walks JSON in place. Answers come from the node under test, so that it is enough to notice what is not JSON;
// it does not have to refuse every spelling that JSON does not know.
type scanner struct {
	b   []byte
	i   int
	bad bool
}

func (s *scanner) err() error {
	if !s.bad {
		return nil
	}
	from := max(0, s.i-40)
	return fmt.Errorf("client: broken JSON at %d: %.80q", s.i, s.b[min(from, len(s.b)):])
}

// peek is the next byte that is not space; 0 at the end.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\n', '\t', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// take consumes c, or marks the text as broken.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		s.bad = true
		return false
	}
	s.i++
	return true
}

// str reads a string; a view of the text unless it holds escapes.
func (s *scanner) str() []byte {
	if !s.take('"') {
		return nil
	}
	from, escaped := s.i, false
	for {
		n := bytes.IndexByte(s.b[s.i:], '"')
		if n < 0 {
			s.bad = true
			return nil
		}
		at := s.i + n
		s.i = at + 1
		slashes := 0
		for at-1-slashes >= from && s.b[at-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 1 {
			escaped = true
			continue
		}
		if !escaped && bytes.IndexByte(s.b[from:at], '\\') < 0 {
			return s.b[from:at]
		}
		var text string
		if json.Unmarshal(s.b[from-1:at+1], &text) != nil {
			s.bad = true
		}
		return []byte(text)
	}
}

// value skips any value and returns its text.
func (s *scanner) value() []byte {
	first := s.peek()
	from := s.i
	switch first {
	case '"':
		s.str()
	case '{', '[':
		s.container()
	default:
		for s.i < len(s.b) && !ends(s.b[s.i]) {
			s.i++
		}
		s.bad = s.bad || s.i == from
	}
	return s.b[from:s.i]
}

// ends reports whether c is what may follow a number or a word.
func ends(c byte) bool {
	return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\t' || c == '\r'
}

func (s *scanner) container() {
	for depth := 0; s.i < len(s.b); {
		switch s.b[s.i] {
		case '{', '[':
			depth++
			s.i++
		case '}', ']':
			depth--
			s.i++
		case '"':
			s.str()
		default:
			s.i++
		}
		if depth == 0 {
			return
		}
	}
	s.bad = true
}

// each calls element for every element of an array, member for every member of an object.
func (s *scanner) each(element func()) {
	if !s.take('[') || s.empty(']') {
		return
	}
	for !s.bad {
		element()
		if s.peek() == ',' {
			s.i++
			continue
		}
		s.take(']')
		return
	}
}

func (s *scanner) object(member func(key []byte)) {
	if !s.take('{') || s.empty('}') {
		return
	}
	for !s.bad {
		key := s.str()
		if !s.take(':') {
			return
		}
		member(key)
		if s.peek() == ',' {
			s.i++
			continue
		}
		s.take('}')
		return
	}
}

func (s *scanner) empty(end byte) bool {
	if s.peek() != end {
		return false
	}
	s.i++
	return true
}

// number reads digits, in a string or not; null is 0.
func (s *scanner) number() uint64 {
	var text []byte
	if s.peek() == '"' {
		text = s.str()
	} else if text = s.value(); string(text) == "null" {
		return 0
	}
	n := uint64(0)
	for _, c := range text {
		if c < '0' || c > '9' {
			s.bad = true
			return 0
		}
		n = n*10 + uint64(c-'0')
	}
	s.bad = s.bad || len(text) == 0
	return n
}

// appendString appends a JSON string.
func appendString(b, text []byte) []byte {
	for _, c := range text {
		if c < 0x20 || c == '"' || c == '\\' || c >= 0x7f {
			quoted, _ := json.Marshal(string(text)) // a string always encodes
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }
