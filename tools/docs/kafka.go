package docs

import (
	"strings"
	"sync"
)

// KafkaPage is the page about clients of Kafka, one section each.
const KafkaPage = "kafka-clients"

// KafkaClient is a section of KafkaPage: a program and what to know about the client. Tests run every program.
type KafkaClient struct {
	Name string
	// Names are what else it is called.
	Names []string
	// Package is what its registry calls it, Version the one that the program is run with.
	Package, Version string
	Language, Code   string
	Notes            []KafkaNote
}

// KafkaNote is something to know about a client. When is "always", "before VERSION", "from VERSION" or "login".
type KafkaNote struct{ When, Text string }

// KafkaClients are the clients of KafkaPage, in its order.
var KafkaClients = sync.OnceValue(func() (out []KafkaClient) {
	page, _ := Find(KafkaPage)
	for _, s := range page.Sections() {
		part := Page{Name: page.Name, Text: s.Text}
		for _, b := range part.Blocks() {
			if b.Attrs["package"] == "" {
				continue
			}
			out = append(out, KafkaClient{Name: s.Title, Names: strings.Split(b.Attrs["names"], ","), Package: b.Attrs["package"],
				Version: b.Attrs["version"], Language: b.Lang, Code: b.Text, Notes: kafkaNotes(s.Text)})
		}
	}
	return out
})

// kafkaNotes reads the notes of a section: "- **when** | text".
func kafkaNotes(text string) (out []KafkaNote) {
	for line := range strings.SplitSeq(text, "\n") {
		rest, ok := strings.CutPrefix(line, "- **")
		if !ok {
			continue
		}
		if when, text, ok := strings.Cut(rest, "** | "); ok {
			out = append(out, KafkaNote{when, text})
		}
	}
	return out
}
