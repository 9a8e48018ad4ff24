package groups

import (
	"regexp"
	"regexp/syntax"
	"strconv"
)

const (
	// regexMax bounds a pattern of topics, bytes, and regexBytesMax what it takes when it is compiled: repetitions make much of
	// little.
	regexMax      = 4 << 10
	regexBytesMax = 1 << 20
	// instBytes is what a step of a compiled pattern takes, runeBytes a bound of a class of characters.
	instBytes = 40
	runeBytes = 4
)

// match has the member subscribe to the topics of a pattern, or says why it can not be.
func (m *cmember) match(s string) (why string) {
	n := compiledBytes(s)
	if n > regexBytesMax {
		return "the regular expression is too large: it takes about " + strconv.Itoa(n) + " bytes, and may take " + strconv.Itoa(regexBytesMax)
	}
	re, err := compile(s)
	if err != nil {
		return err.Error()
	}
	m.regex, m.compiled, m.compiledBytes = s, re, n
	return ""
}

// compile reads a regular expression of topics, which has to match the whole name; "" is none.
func compile(s string) (*regexp.Regexp, error) {
	if s == "" {
		return nil, nil
	}
	return regexp.Compile(anchored(s))
}

func anchored(s string) string { return `^(?:` + s + `)$` }

// compiledBytes is about what a pattern takes when it is compiled, which it is not for that; 0 of one that does not parse.
func compiledBytes(s string) int {
	if s == "" {
		return 0
	}
	re, err := syntax.Parse(anchored(s), syntax.Perl)
	if err != nil {
		return 0
	}
	return instBytes*steps(re) + runeBytes*bounds(re)
}

// steps is about how many steps a pattern has. The parser bounds its depth, and how often anything is repeated in all.
func steps(re *syntax.Regexp) (n int) {
	for _, sub := range re.Sub {
		n += steps(sub) + 1
	}
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpRepeat:
		n *= max(re.Max, re.Min+1)
	}
	return n + 1
}

// bounds is how many runes a pattern names. Copies of a part that is repeated share them.
func bounds(re *syntax.Regexp) (n int) {
	for _, sub := range re.Sub {
		n += bounds(sub)
	}
	return n + len(re.Rune)
}
