package engine

import (
	"context"
	"crypto/sha256"
	"strconv"

	"queen/engine/format"
)

// countOnce commits what add encodes, commands whose verdicts are numbers of rows, under the caller's Idempotency-Key: met
// again with the same digest it answers what it answered and changes nothing. part tells the entries of one call apart.
func (n *Node) countOnce(ctx context.Context, c Caller, digest [16]byte, part int, add func(b *format.CommandBuf)) ([]keptCount, *Error) {
	if len(c.Key) > maxOnceKey {
		return nil, errBad("Idempotency-Key", "255 bytes", "the key is too long")
	}
	key := c.Key
	if part > 0 {
		key += "\x00" + strconv.Itoa(part)
	}
	o := &onceCall{n: n, tenant: c.Tenant, key: format.HashID(n.identity.hashKey, viewBytes(key)), digest: digest}
	for range wholeTries {
		if counts, found, err := o.counts(); err != nil || found {
			return counts, err
		}
		s := newSubmission(consumption)
		add(s.buf)
		if s.buf.Count == 0 {
			s.recycle()
			return nil, nil
		}
		var head format.CommandBuf
		head.AddOnce(o.command(uint32(s.buf.Count)))
		s.buf.Prepend(&head)
		s.head = head.Count
		if err := n.commit(ctx, s); err != nil {
			return nil, err
		}
		switch code := s.brackets()[0].Code; code {
		case format.CodeOK:
			return countsOf(s.items(), &s.flight.results), nil
		case format.CodeRepeated: // another call with the key was faster
		case format.CodeMismatch:
			return nil, errClash()
		default:
			return nil, errOfCode(code)
		}
	}
	return nil, errOfCode(format.CodeStaleEvidence)
}

// keptCount is the verdict about one command.
type keptCount struct {
	format.CountResult
	code format.Code
}

func countsOf(items []format.Result, r *format.Results) []keptCount {
	out := make([]keptCount, len(items))
	for i := range items {
		if out[i].code = items[i].Code; out[i].code == format.CodeOK {
			out[i].CountResult = r.Counts[items[i].At]
		}
	}
	return out
}

// counts reads what was answered to an earlier call with the key.
func (o *onceCall) counts() (counts []keptCount, found bool, refused *Error) {
	row, found, err := o.find()
	if err != nil {
		return nil, false, asError(err)
	}
	if !found {
		return nil, false, nil
	}
	var r format.Results
	if err := format.ParseParts(row.Parts, row.First+1, &r); err != nil {
		return nil, false, errRead(err)
	}
	o.n.counters.repeated.Add(1)
	return countsOf(r.Items, &r), true, nil
}

// textDigest is a digest of what a call asks for, of its words.
func textDigest(words ...string) (digest [16]byte) {
	d := opHash{h: sha256.New()}
	d.text(words...)
	copy(digest[:], d.h.Sum(nil))
	return digest
}
