package format

// Header is one header of a message; keys may repeat and keep their order.
type Header struct{ Key, Value []byte }

// HeaderOnlyGroup names the consumer group that the message of a grouped frame is for; elsewhere it means nothing.
const HeaderOnlyGroup = "queen-only-group"

// AppendHeaders appends the encoded form of headers to dst; no header encodes as no byte.
func AppendHeaders(dst []byte, headers []Header) []byte {
	for i := range headers {
		dst = putBytes(dst, headers[i].Key)
		dst = putBytes(dst, headers[i].Value)
	}
	return dst
}

// HeaderReader iterates encoded headers.
type HeaderReader struct{ d decoder }

// ReadHeaders iterates FrameMessage.Headers.
func ReadHeaders(b []byte) HeaderReader { return HeaderReader{decoder{b: b}} }

// Next fills h, aliasing the input; false at the end or at a fault.
func (r *HeaderReader) Next(h *Header) bool {
	if r.d.bad != "" || r.d.pos == len(r.d.b) {
		return false
	}
	h.Key = r.d.bytes()
	h.Value = r.d.bytes()
	return r.d.bad == ""
}

// Err is nil after Next walked all headers.
func (r *HeaderReader) Err() error { return r.d.close("headers", 0) }
