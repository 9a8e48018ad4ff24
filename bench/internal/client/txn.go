package client

// Transacted is what became of a transaction. Reason and Error are views of the answer, empty when it took place.
type Transacted struct {
	Success       bool
	Reason, Error []byte
}

// TxnBegin starts the body of a transaction, which TxnAck and TxnPush add operations to.
func (c *Conn) TxnBegin() { c.body = append(c.body[:0], `{"operations":[`...) }

// txnPart begins the next operation.
func (c *Conn) txnPart() []byte {
	b := c.body
	if b[len(b)-1] != '[' {
		b = append(b, ',')
	}
	return b
}

// TxnAck completes one message under a lease.
func (c *Conn) TxnAck(id, partitionID, lease, group []byte) {
	b := append(c.txnPart(), `{"type":"ack","transactionId":`...)
	b = appendString(b, id)
	b = append(b, `,"partitionId":`...)
	b = appendString(b, partitionID)
	b = append(b, `,"leaseId":`...)
	b = appendString(b, lease)
	b = append(b, `,"consumerGroup":`...)
	b = appendString(b, group)
	c.body = append(b, '}')
}

// TxnPush adds a message; payload is JSON.
func (c *Conn) TxnPush(queue, partition, id, payload []byte) {
	b := append(c.txnPart(), `{"type":"push","items":[`...)
	c.body = append(appendItem(b, queue, partition, id, payload), `]}`...)
}

// TxnSend has the transaction add one to a counter as well, and sends it.
func (c *Conn) TxnSend(namespace, counter []byte) (Answer, error) {
	b := append(c.body, `],"kv":[{"op":"incr","ns":`...)
	b = appendString(b, namespace)
	b = append(b, `,"key":`...)
	b = appendString(b, counter)
	c.body = append(b, `,"delta":1,"forever":true}]}`...)
	return c.Do("POST", "/api/v1/transaction", c.body)
}

// ParseTransaction reads the body of a 200. The results of the operations are skipped.
func ParseTransaction(body []byte) (t Transacted, err error) {
	s := scanner{b: body}
	s.object(func(key []byte) {
		switch string(key) {
		case "success":
			t.Success = string(s.value()) == "true"
		case "reason":
			t.Reason = s.str()
		case "error":
			t.Error = s.str()
		default:
			s.value()
		}
	})
	return t, s.err()
}
