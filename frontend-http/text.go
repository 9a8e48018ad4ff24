package frontendhttp

import "strings"

// text collects copies of a request's strings in few allocations. The strings are immutable and stay valid for as long
// as anybody keeps them; keeping one keeps the chunk it stands in.
type text struct{ chunk strings.Builder }

const (
	chunkMin = 512
	chunkMax = 64 << 10
)

// copy returns a string with the bytes of b. hint is how many bytes may still follow, for the size of a chunk.
func (t *text) copy(b []byte, hint int) string {
	if len(b) == 0 {
		return ""
	}
	if t.chunk.Cap()-t.chunk.Len() < len(b) {
		t.chunk = strings.Builder{} // the old chunk lives on in the strings cut from it
		t.chunk.Grow(max(len(b), min(max(hint, chunkMin), chunkMax)))
	}
	from := t.chunk.Len()
	t.chunk.Write(b)
	return t.chunk.String()[from:]
}

// reset forgets the current chunk; strings handed out stay valid.
func (t *text) reset() { t.chunk = strings.Builder{} }
