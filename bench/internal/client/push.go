package client

import "bytes"

// Pushed is what became of one pushed message.
type Pushed struct {
	Status, ID []byte
	Offset     uint64
	Error      []byte
}

// PushBegin starts the body of a push.
func (c *Conn) PushBegin() { c.body = append(c.body[:0], `{"items":[`...) }

// PushItem adds a message; payload is JSON.
func (c *Conn) PushItem(queue, partition, id, payload []byte) {
	b := c.body
	if b[len(b)-1] != '[' {
		b = append(b, ',')
	}
	c.body = appendItem(b, queue, partition, id, payload)
}

// appendItem appends a message of a push.
func appendItem(b, queue, partition, id, payload []byte) []byte {
	b = append(b, `{"queue":`...)
	b = appendString(b, queue)
	b = append(b, `,"partition":`...)
	b = appendString(b, partition)
	b = append(b, `,"transactionId":`...)
	b = appendString(b, id)
	b = append(b, `,"payload":`...)
	b = append(b, payload...)
	return append(b, '}')
}

// PushSend sends what was begun. It may be called again to send the same messages again.
func (c *Conn) PushSend() (Answer, error) {
	b := append(c.body, `]}`...)
	a, err := c.Do("POST", "/api/v1/push", b)
	c.body = b[:len(b)-2]
	return a, err
}

// CountQueued counts the messages of a push's answer that were stored and those that were duplicates, by their shape
// alone: the cheap way for a loader.
func CountQueued(body []byte) (queued, duplicate int) {
	return bytes.Count(body, []byte(`"status":"queued"`)), bytes.Count(body, []byte(`"status":"duplicate"`))
}

// ParsePush calls each for every message of a push's answer, in order.
func ParsePush(body []byte, each func(i int, p Pushed)) error {
	s := scanner{b: body}
	i := 0
	s.each(func() {
		var p Pushed
		s.object(func(key []byte) {
			switch string(key) {
			case "status":
				p.Status = s.str()
			case "message_id":
				p.ID = s.str()
			case "offset":
				p.Offset = s.number()
			case "error":
				p.Error = s.value()
			default:
				s.value()
			}
		})
		if !s.bad {
			each(i, p)
			i++
		}
	})
	return s.err()
}
