package frontendkafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceParts bounds the topics and partitions of one produce request: each takes some hundred bytes once it is decoded,
// and hardly any on the wire.
const produceParts = 200_000

// checkProduce counts the topics and partitions of the body of a produce request without decoding it. What does not
// decode passes: whoever decodes it says so.
func checkProduce(version int16, body []byte) error {
	rd := kbin.Reader{Src: body}
	flexible := version >= 9
	length := func() int {
		if flexible {
			return int(rd.CompactArrayLen())
		}
		return int(rd.ArrayLen())
	}
	tags := func() {
		if flexible {
			kmsg.SkipTags(&rd)
		}
	}
	if version >= 3 {
		if flexible {
			_ = rd.UnsafeCompactNullableString()
		} else {
			_ = rd.UnsafeNullableString()
		}
	}
	rd.Int16() // acks
	rd.Int32() // timeout
	parts := 0
	for topics := length(); topics > 0 && rd.Ok(); topics-- {
		parts++
		switch {
		case version >= 13:
			rd.Uuid()
		case flexible:
			_ = rd.UnsafeCompactString()
		default:
			_ = rd.UnsafeString()
		}
		n := length()
		if parts += max(n, 0); parts > produceParts {
			return fmt.Errorf("it has more than %d topics and partitions", produceParts)
		}
		for ; n > 0 && rd.Ok(); n-- {
			rd.Int32()
			if flexible {
				rd.CompactNullableBytes()
			} else {
				rd.NullableBytes()
			}
			tags()
		}
		tags()
	}
	return nil
}
