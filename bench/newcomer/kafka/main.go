package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// patience bounds all of it.
const patience = time.Minute

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kafka HOST:PORT")
		os.Exit(2)
	}
	if err := hello(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "kafka:", err)
		os.Exit(1)
	}
}

// hello writes a record and reads it back.
func hello(broker string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	const topic, word = "hello", "hello"
	c, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(word)}).FirstErr(); err != nil {
		return err
	}
	for {
		got := c.PollFetches(ctx)
		if err := got.Err0(); err != nil {
			return err
		}
		for _, r := range got.Records() {
			if string(r.Value) != word {
				return errors.New("what was read is not what was written")
			}
			fmt.Println(word)
			return nil
		}
	}
}
