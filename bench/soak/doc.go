// Command soak runs a node at a share of its capacity for a long time and judges that it stays as it is.
//
//	go run ./bench/soak [--warmup 20m] [--duration 60m] [--share 0.7 | --rate MSGS] [--data DIR] [--json]
//
// It builds and starts the real binary on a fresh directory, measures what a new node reaches for --calibrate with
// consumers running, and offers the share of it, or what --rate names, open loop, with dedupWindowSeconds 900, retention 300 s and a
// transaction id in every message. Each 10-second window is printed: rates, p99 from the intended send time, RSS,
// descriptors and disk of the node.
//
// The windows after the warm-up are judged: RSS, descriptors and disk each vary by less than --vary of their median (the
// largest less the smallest), no window has a p99 above --worst, and the p99 of all is at most --p99. Order, gaps and
// repeats are judged throughout. Behind it the capacity is measured again, with full windows and for --held, longer than a
// round of all merges takes, and what was offered must be at least the share of that. It exits with an error when anything did not hold.
package main
