package client

import (
	"encoding/json"
	"strconv"

	"queen/tools/cli"
)

// Message is a message as the commands print it, and as ack reads it. Fields that a read does not know are left out.
type Message struct {
	Queue           string          `json:"queue"`
	Partition       string          `json:"partition"`
	PartitionID     string          `json:"partitionId,omitempty"`
	Offset          uint64          `json:"offset"`
	ID              string          `json:"id,omitempty"`
	TransactionID   string          `json:"transactionId"`
	LeaseID         string          `json:"leaseId,omitempty"`
	ConsumerGroup   string          `json:"consumerGroup,omitempty"`
	DeliveryAttempt int             `json:"deliveryAttempt,omitempty"`
	CreatedAt       string          `json:"createdAt"`
	TraceID         string          `json:"traceId,omitempty"`
	ProducerSub     string          `json:"producerSub,omitempty"`
	Data            json.RawMessage `json:"data,omitempty"`
	Encoding        string          `json:"encoding,omitempty"`
	ContentType     string          `json:"contentType,omitempty"`
	Headers         json.RawMessage `json:"headers,omitempty"`
}

// queueMode is the name under which the API answers reads without a consumer group.
const queueMode = "__QUEUE_MODE__"

var messageColumns = []cli.Column[Message]{
	{Head: "partition", Cell: func(m Message) string { return m.Partition }},
	{Head: "offset", Cell: func(m Message) string { return strconv.FormatUint(m.Offset, 10) }},
	{Head: "transaction id", Cell: func(m Message) string { return m.TransactionID }},
	{Head: "created at", Cell: func(m Message) string { return m.CreatedAt }},
	{Head: "data", Cell: func(m Message) string { return cut(string(m.Data), 60) }},
}

var poppedColumns = append([]cli.Column[Message]{
	{Head: "attempt", Cell: func(m Message) string { return strconv.Itoa(m.DeliveryAttempt) }},
	{Head: "lease id", Cell: func(m Message) string { return m.LeaseID }},
}, messageColumns...)

// cut shortens a cell to n runes.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-3]) + "..."
	}
	return s
}

// unquoted is the text of a JSON value as people read it.
func unquoted(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
