package machine

import (
	"encoding/binary"
	"fmt"

	"queen/engine/format"
)

// applyOnce applies the parts of the Once at r, which it moves to its last part, unless they took place before
// . What one of them asks the proposer to do again stops all of them: nothing is remembered.
func (m *Machine) applyOnce(r *format.CommandReader, out *format.Results) error {
	s := &m.scratch
	if err := r.Once(&s.once); err != nil {
		return err
	}
	c := s.once
	item, first := len(out.Items), r.Ordinal()
	place := format.Place{Index: m.applied, Ordinal: first}
	res := uint32(len(out.Onces))
	out.Onces = append(out.Onces, format.OnceResult{})
	out.Items = append(out.Items, format.Result{Kind: format.KindOnce, First: first, At: res})
	defer m.keyed.Settled(first)

	code, err := m.judgeOnce(&c, *r)
	if err != nil {
		return err
	}
	if code != format.CodeOK {
		out.Items[item].Code = code
		return rollBack(r, out, int(c.Parts))
	}
	out.Onces[res] = format.OnceResult{Index: place.Index, First: first, W: m.w}
	for end := r.Number() + int(c.Parts); r.Number() < end; {
		if !r.Next() {
			return fmt.Errorf("machine: the parts of a key end early: %w", r.Err())
		}
		if err := m.next(r, out); err != nil {
			return err
		}
	}
	at := m.onceAt(c.Tenant, c.Key)
	row := format.OnceRow{Digest: c.Digest, Note: c.Note, Index: place.Index, First: place.Ordinal, W: m.w}
	bytes := format.AppendParts(row.Append(m.scratch.row[:at.size]), out, item+1, len(out.Items))
	m.write(at, bytes, keyRec{version: m.nextVersion(), due: m.lasting(c.Keep), num: digestLow(&c)})
	return nil
}

// digestLow is what the head keeps of the digest of a call's body.
func digestLow(c *format.Once) uint64 { return binary.LittleEndian.Uint64(c.Digest[:]) }

// rollBack moves r over the next n commands and answers each that it did not take place.
func rollBack(r *format.CommandReader, out *format.Results, n int) error {
	for range n {
		if !r.Next() {
			return fmt.Errorf("machine: parts end early: %w", r.Err())
		}
		out.Items = append(out.Items, format.Result{Kind: r.Kind(), First: r.Ordinal(), Code: format.CodeRolledBack})
	}
	return nil
}

// judgeOnce says whether the parts behind r may be applied.
func (m *Machine) judgeOnce(c *format.Once, r format.CommandReader) (format.Code, error) {
	at := m.onceAt(c.Tenant, c.Key)
	if head := m.headAt(at.h); head.live {
		if m.keys.Get(at.h).num == digestLow(c) {
			return format.CodeRepeated, nil
		}
		return format.CodeMismatch, nil
	}
	if !m.keyRoom(int(c.Parts)+1, at.size) {
		return format.CodeLimit, nil
	}
	for range c.Parts {
		r.Next()
		if code, err := m.stale(&r); code != format.CodeOK || err != nil {
			return code, err
		}
	}
	return format.CodeOK, r.Err()
}

// stale says that what the proposer knew about the current command, a part of a Once, holds no more: it has to
// look again (CodeStaleEvidence) or to seal the frame (CodeEncryption), and all of the call with it.
func (m *Machine) stale(r *format.CommandReader) (format.Code, error) {
	s := &m.scratch
	switch {
	case r.Kind().StoresFrame():
		if err := r.AnyAppend(&s.append); err != nil {
			return 0, err
		}
		if code, _, _ := m.checkAppend(&s.append, 1); code == format.CodeStaleEvidence || code == format.CodeEncryption {
			return code, nil
		}
	case r.Kind() == format.KindLock:
		if err := r.Lock(&s.lock); err != nil {
			return 0, err
		}
		if s.lock.Op == format.LockRenew && m.judgeRenew(&s.lock, m.lockAt(&s.lock, s.lock.Slot)) == renewStale {
			return format.CodeStaleEvidence, nil
		}
	}
	return format.CodeOK, nil
}
