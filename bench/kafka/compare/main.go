package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	ours := flag.String("ours", "", "HOST:PORT of a new node, required")
	other := flag.String("other", "", "HOST:PORT of a new broker of another implementation; empty starts kfake")
	name := flag.String("name", "kafka", "the implementation at --other, as judged.txt names it")
	all := flag.Bool("all", false, "list judged differences, too, with their reasons")
	flag.Parse()
	if *ours == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if *other == "" {
		cl, addr, err := startFake()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		defer cl.Close()
		*other, *name = addr, "kfake"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	c, err := compare(ctx, *ours, *other)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	bad, err := report(os.Stdout, c, *name, *all)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if bad > 0 {
		os.Exit(1)
	}
}

// startFake runs kfake on loopback.
func startFake() (*kfake.Cluster, string, error) {
	cl, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(2))
	if err != nil {
		return nil, "", err
	}
	return cl, cl.ListenAddrs()[0], nil
}

// report lists differences and returns how many nobody judged.
func report(out *os.File, c *comparison, implementation string, all bool) (unjudged int, err error) {
	table, err := judgements(judgedText, implementation)
	if err != nil {
		return 0, err
	}
	judged := 0
	for _, id := range c.order {
		d := c.found[id]
		if j := judge(table, d); j != nil {
			if judged++; all {
				fmt.Fprintf(out, "judged: %v\n        %s\n", d, j.reason)
			}
			continue
		}
		unjudged++
		fmt.Fprintf(out, "NOT JUDGED: %v\n", d)
	}
	for _, j := range table {
		if !j.used && all {
			fmt.Fprintf(out, "matches nothing: %s %s %s\n", j.key, j.name, j.path)
		}
	}
	fmt.Fprintf(out, "%d requests in every version that both serve; %d differences judged, %d not; only we serve %s\n",
		c.asked, judged, unjudged, strings.Join(c.unshared, ", "))
	return unjudged, nil
}
