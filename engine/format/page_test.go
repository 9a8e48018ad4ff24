package format

import (
	"os"
	"strings"
	"testing"
)

// Goal: FORMAT.md has a page for every file kind and a line for every command kind that this version reads.
func TestFormatPageIsComplete(t *testing.T) {
	page, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, magic := range [][8]byte{
		segmentMagic, footerMagic, beaconMagic, runMagic, runTailMagic, checkpointMagic, manifestMagic,
	} {
		if !strings.Contains(string(page), "`"+string(magic[:])+"`") {
			t.Errorf("no page for %s", magic[:])
		}
	}
	for _, row := range []string{
		"| 1 | Genesis |", "| 2 | Term |", "| 3 | Tick |", "| 4 | Append |", "| 5 | Pop |", "| 6 | Ack |", "| 7 | Extend |",
		"| 8 | Release |", "| 9 | Skip |", "| 10 | TrimLease |", "| 11 | SetOffset |", "| 12 | Register |", "| 18 | Redrive |",
		"| 13 | Txn |", "| 14 | Lock |", "| 15 | KV |", "| 16 | Timer |", "| 17 | Fire |", "| 33 | Once |",
		"| 19 | Reveal |", "| 20 | Retain |", "| 21 | Trim |", "| 25 | Configure |", "| 26 | Delete |", "| 27 | Sweep |",
		"| 28 | Mark |", "| 29 | Purge |", "| 32 | Admin |", "| 24 | Group |", "| 1 | entry |", "| 2 | fragment |", "| 3 | outcome |", "| 4 | hardstate |",
		"| 5 | snapshot |", "| 6 | floor |", "| 7 | bootstrap |", "| 8 | cut |", "| 9 | removed |", "| 10 | frame |",
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("no line %s", row)
		}
	}
}
