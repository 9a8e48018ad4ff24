package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// iterations of the key, as few as may be.
const iterations = 4096

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: user HOST:PORT NAME PASSWORD")
		os.Exit(2)
	}
	if err := makeUser(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "user:", err)
		os.Exit(1)
	}
}

func makeUser(broker, name, password string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var keys []kadm.UpsertSCRAM
	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		keys = append(keys, kadm.UpsertSCRAM{User: name, Mechanism: m, Iterations: iterations, Password: password})
	}
	made, err := kadm.NewClient(cl).AlterUserSCRAMs(ctx, nil, keys)
	if err != nil {
		return err
	}
	if one, ok := made[name]; !ok {
		return errors.New("the answer is not about the user")
	} else if one.Err != nil {
		return fmt.Errorf("%w: %s", one.Err, one.ErrMessage)
	}
	return nil
}
