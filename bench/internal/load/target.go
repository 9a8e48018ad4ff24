package load

import (
	"time"

	"queen/bench/internal/client"
)

// Target is what a load is put on: a node, several of one cluster, or a broker of another make.
type Target interface {
	// Prepare makes the queue, which has to be fresh, and registers the consumer group before there is a message.
	Prepare(o *Options) error
	// Producer and Consumer make connections, i counting from 0. Each is used by one goroutine.
	Producer(o *Options, i int) (Producer, error)
	Consumer(o *Options, i int) (Consumer, error)
}

// Producer pushes batches.
type Producer interface {
	// Begin starts a batch, Item adds a message. What Item is given may be used again by the caller.
	Begin()
	Item(partition, id, payload []byte)
	// Send pushes what was begun. Called again it pushes the same messages again.
	Send() (Reply, error)
	Close()
}

// Consumer takes messages and completes them.
type Consumer interface {
	// Pop waits up to PopWait for messages and leaves d without any if none came. What is in d is valid until the next call.
	Pop(d *client.Delivery) (Reply, error)
	// Ack completes each message of the last Pop that had some. Called again it completes the same ones again.
	Ack() (Reply, error)
	Close()
}

// PopWait is how long a pop of a load waits for messages.
const PopWait = 2 * time.Second

// Reply is how a call was answered. An error beside it is a call without an answer: whether it was carried out is not known.
type Reply struct {
	// Later says that the call was refused for now, and may be made again after Wait. Unsure says that it may have been carried out
	// all the same.
	Later, Unsure bool
	Wait          time.Duration
	// Refused is why the call was refused for good.
	Refused error
	// Queued and Duplicates count what became of a batch, Acked the messages that were completed.
	Queued, Duplicates, Acked int
	// Text is the answer as it came, valid until the next call; nil when there is none to show.
	Text []byte
}
