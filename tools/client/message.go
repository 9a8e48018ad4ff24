package client

import (
	"encoding/json"
	"strconv"
	"time"

	"queen/tools/cli"
)

// Message is a message as the commands print it, and as ack and push --wrapped read it. Fields that a read does not know
// are left out.
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
	// PayloadMasked says that the node's operator hides parts of data, or all of it.
	PayloadMasked bool `json:"payloadMasked,omitempty"`
}

// ShiftTimes puts the message's time into a zone.
func (m *Message) ShiftTimes(zone *time.Location) { m.CreatedAt = cli.InZone(m.CreatedAt, zone) }

// queueMode is the name under which the API answers reads without a consumer group.
const queueMode = "__QUEUE_MODE__"

var messageColumns = []cli.Column[Message]{
	{Head: "queue", Wide: true, Cell: func(m Message) string { return m.Queue }},
	{Head: "partition", Cell: func(m Message) string { return m.Partition }},
	{Head: "offset", Cell: func(m Message) string { return strconv.FormatUint(m.Offset, 10) }, Help: "its number in the partition"},
	{Head: "transaction id", Key: true, Cell: func(m Message) string { return m.TransactionID },
		Help: "what makes a repetition a duplicate"},
	{Head: "created at", Cell: func(m Message) string { return m.CreatedAt }},
	{Head: "content type", Wide: true, Cell: func(m Message) string { return m.ContentType }, Help: "missing where the payload is JSON"},
	{Head: "encoding", Wide: true, Cell: func(m Message) string { return m.Encoding }, Help: "how data is written, where it is not JSON"},
	{Head: "masked", Wide: true, Cell: func(m Message) string { return map[bool]string{true: "yes"}[m.PayloadMasked] },
		Help: "the node's operator hides parts of data, or all of it"},
	{Head: "data", Cell: func(m Message) string { return cut(string(m.Data), 60) }, Help: "the payload, as of --payload"},
}

var poppedColumns = append([]cli.Column[Message]{
	{Head: "delivery attempt", Cell: func(m Message) string { return strconv.Itoa(m.DeliveryAttempt) }, Help: "1 at its first delivery"},
	{Head: "lease id", Cell: func(m Message) string { return m.LeaseID }, Help: "missing where it was settled at delivery"},
	{Head: "partition id", Wide: true, Cell: func(m Message) string { return m.PartitionID }},
}, messageColumns...)

// cut shortens a cell to n runes.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-3]) + "..."
	}
	return s
}
