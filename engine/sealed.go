package engine

import (
	"errors"
	"fmt"
	"time"

	"queen/engine/format"
	"queen/engine/seal"
)

// ring is the keys of encryption at rest as they are now; nil when there are none.
func (n *Node) ring() *seal.Ring {
	if n.cfg.Keyring == nil {
		return nil
	}
	return n.cfg.Keyring()
}

// sealFor says with what a frame for a queue is sealed: nil when the queue stores in the clear. A queue that wants
// encryption is refused without a key (S-enc-3 is not followed: nothing is stored in the clear instead).
func (n *Node) sealFor(t format.Tenant, queue string) (*seal.Ring, *Error) {
	n.state.RLock()
	q, ok := n.state.m.QueueByName(t, queue)
	n.state.RUnlock()
	if !ok || !q.Options.EncryptionEnabled {
		return nil, nil
	}
	r := n.ring()
	if r == nil {
		return nil, errOfCode(format.CodeEncryption)
	}
	return r, nil
}

// seal seals a frame that was just encoded; a nil ring leaves it as it is. The frame may be reallocated.
func (n *Node) seal(r *seal.Ring, frame []byte, o seal.Owner) ([]byte, *Error) {
	if r == nil {
		return frame, nil
	}
	frame, err := r.Frame(frame, o, n.cfg.Rand.Fill)
	if err != nil {
		return frame, &Error{Code: CodeEncryption, Message: "the message could not be encrypted", Cause: err}
	}
	return frame, nil
}

// errUnsealed answers what apply refused because it was not sealed: the queue was told to encrypt after the frame had
// been encoded. Sending it again seals it, if there is a key.
func (n *Node) errUnsealed() *Error {
	if n.ring() == nil {
		return errOfCode(format.CodeEncryption)
	}
	return &Error{Code: CodeRetry, RetryAfter: time.Second, Message: "the queue was told to encrypt while the message was under way"}
}

// openStored parses and verifies a stored frame and returns its body, decrypted and decompressed. The body aliases raw,
// *scratch, whose capacity is used, or fresh memory. It is nil when the partition of a sealed frame is gone meanwhile.
func (n *Node) openStored(raw []byte, id format.PartitionID, scratch *[]byte) (format.FrameHead, []byte, error) {
	h, body, err := format.ParseFrame(raw)
	if err != nil {
		return h, nil, err
	}
	if !h.Sealed {
		if h.Codec == format.CodecNone {
			return h, body, nil
		}
		*scratch, err = h.Decompress((*scratch)[:0], body)
		return h, *scratch, err
	}
	n.state.RLock()
	t, queue, partition, ok := n.state.m.OwnerOf(id)
	n.state.RUnlock()
	if !ok {
		return h, nil, nil
	}
	text, err := n.ring().Open(raw, body, h, seal.Owner{Tenant: t, Queue: viewBytes(queue), Partition: viewBytes(partition)})
	if err != nil {
		return h, nil, err
	}
	text, err = h.Unpack(text)
	return h, text, err
}

// errRead says why stored messages can not be given out: the keys, or the bytes.
func errRead(err error) *Error {
	var s *seal.Error
	if errors.As(err, &s) {
		return &Error{Code: CodeEncryption, Message: fmt.Sprintf("stored messages can not be decrypted: %v", s), Cause: err}
	}
	return &Error{Code: CodeCorrupt, Message: "stored bytes can not be read", Cause: err}
}

// withoutMessage completes a dead letter whose message does not open: what is known in the clear stays listed, with the
// reason, and there is no payload.
func (d *DeadLetter) withoutMessage(o format.Offset, s *seal.Error) {
	d.Message = Record{Offset: o, Payload: []byte("null")}
	d.Error += fmt.Sprintf(" (the message can not be decrypted: %v)", s)
}
