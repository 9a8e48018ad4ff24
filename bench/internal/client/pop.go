package client

import (
	"bytes"
	"strconv"
	"time"
)

// PopRequest is the query of a pop. The zero value of a field is not sent.
type PopRequest struct {
	Queue, Group      string
	Batch, Partitions int
	Wait              time.Duration
	LeaseSeconds      int
	// All subscribes a new group from the oldest message.
	All bool
}

// Path is the request's path and query. The queue is taken as it is: names that need encoding are not for loads.
func (r *PopRequest) Path() string {
	b := append([]byte("/api/v1/pop/queue/"), r.Queue...)
	b = append(b, "?wait="...)
	b = strconv.AppendBool(b, r.Wait > 0)
	add := func(name string, n int64) {
		if n > 0 {
			b = append(append(append(b, '&'), name...), '=')
			b = appendInt(b, n)
		}
	}
	add("timeout", r.Wait.Milliseconds())
	add("batch", int64(r.Batch))
	add("partitions", int64(r.Partitions))
	add("leaseSeconds", int64(r.LeaseSeconds))
	if r.Group != "" {
		b = append(append(b, "&consumerGroup="...), r.Group...)
	}
	if r.All {
		b = append(b, "&subscriptionMode=all"...)
	}
	return string(b)
}

// Message is one delivered message; its slices are views of the answer.
type Message struct {
	ID, Partition, PartitionID, Data []byte
	Offset, Attempt                  uint64
}

// Delivery is the answer of a pop. Messages are in the order of the answer, those of a partition together.
type Delivery struct {
	Lease    []byte
	Messages []Message
}

// ParsePop reads the body of a 200 into d, whose memory is reused.
func ParsePop(body []byte, d *Delivery) error {
	d.Lease, d.Messages = nil, d.Messages[:0]
	s := scanner{b: body}
	s.object(func(key []byte) {
		switch string(key) {
		case "leaseId":
			d.Lease = s.str()
		case "messages":
			s.each(func() { d.Messages = append(d.Messages, s.message()) })
		default:
			s.value()
		}
	})
	return s.err()
}

func (s *scanner) message() (m Message) {
	s.object(func(key []byte) {
		switch string(key) {
		case "transactionId":
			m.ID = s.str()
		case "partition":
			m.Partition = s.str()
		case "partitionId":
			m.PartitionID = s.str()
		case "data":
			m.Data = s.value()
		case "offset":
			m.Offset = s.number()
		case "deliveryAttempt":
			m.Attempt = s.number()
		default:
			s.value()
		}
	})
	return m
}

// AckBegin starts the body of a batch of acks.
func (c *Conn) AckBegin() { c.body = append(c.body[:0], `{"acknowledgments":[`...) }

// AckItem completes one message under a lease.
func (c *Conn) AckItem(id, partitionID, lease []byte) {
	b := c.body
	if b[len(b)-1] != '[' {
		b = append(b, ',')
	}
	b = append(b, `{"transactionId":`...)
	b = appendString(b, id)
	b = append(b, `,"partitionId":"`...)
	b = append(b, partitionID...)
	b = append(b, `","status":"completed","leaseId":"`...)
	b = append(b, lease...)
	c.body = append(b, `"}`...)
}

// AckSend sends what was begun, for a group. It may be called again to send the same acks again.
func (c *Conn) AckSend(group string) (Answer, error) {
	n := len(c.body)
	b := append(c.body, `],"consumerGroup":`...)
	b = appendString(b, []byte(group))
	b = append(b, '}')
	a, err := c.Do("POST", "/api/v1/ack/batch", b)
	c.body = b[:n]
	return a, err
}

// CountAcked counts the items of an ack's answer that were carried out, by their shape alone.
func CountAcked(body []byte) int { return bytes.Count(body, []byte(`"success":true`)) }

// Acked is what became of one ack.
type Acked struct {
	Success, Noop bool
	Error         []byte
}

// ParseAck calls each for every item of an ack's answer, in order.
func ParseAck(body []byte, each func(i int, a Acked)) error {
	s := scanner{b: body}
	i := 0
	s.each(func() {
		var a Acked
		s.object(func(key []byte) {
			switch string(key) {
			case "success":
				a.Success = string(s.value()) == "true"
			case "noop":
				a.Noop = string(s.value()) == "true"
			case "error":
				a.Error = s.value()
			default:
				s.value()
			}
		})
		if !s.bad {
			each(i, a)
			i++
		}
	})
	return s.err()
}
