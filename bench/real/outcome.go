package main

import "queen/bench/internal/report"

// counts are what one consumer group saw.
type counts struct {
	settled, delivered, redelivered    int
	acked, lostAcks, resent, expired   int
	redeliveredAfterLost, highAttempts int
	late                               int // deliveries that came when their lease may have been over
}

func (c *counts) add(d counts) {
	c.settled += d.settled
	c.delivered += d.delivered
	c.redelivered += d.redelivered
	c.acked += d.acked
	c.lostAcks += d.lostAcks
	c.resent += d.resent
	c.expired += d.expired
	c.redeliveredAfterLost += d.redeliveredAfterLost
	c.highAttempts += d.highAttempts
	c.late += d.late
}

// outcome is what one replay came to, or several.
type outcome struct {
	lines            int
	workers          counts
	resentDuplicates int64 // pushes that got no answer, were sent again and were there
	duplicates       int64 // answers to the second replay that name the first
	readers          counts
}

func (o *outcome) add(p *outcome) {
	o.lines += p.lines
	o.workers.add(p.workers)
	o.resentDuplicates += p.resentDuplicates
	o.duplicates += p.duplicates
	o.readers.add(p.readers)
}

// reportWorkers notes what was pushed and consumed under kills or faults.
func (o *outcome) reportWorkers(out *report.Report) {
	c := &o.workers
	out.Add("lines", float64(o.lines), "msg")
	out.Add("delivered", float64(c.delivered), "msg")
	out.Add("redelivered", float64(c.redelivered), "msg")
	out.Add("redelivered after a lost ack", float64(c.redeliveredAfterLost), "msg")
	out.Add("delivered with attempt above 1", float64(c.highAttempts), "msg")
	out.Add("delivered too late to be used", float64(c.late), "msg")
	out.Add("acks answered", float64(c.acked), "msg")
	out.Add("acks lost", float64(c.lostAcks), "msg")
	out.Add("acks sent again", float64(c.resent), "msg")
	out.Add("acks refused, lease over", float64(c.expired), "msg")
	out.Add("pushes sent again, duplicates", float64(o.resentDuplicates), "msg")
}

// reportReaders notes what the second replay and the new group came to.
func (o *outcome) reportReaders(out *report.Report) {
	out.Add("second replay, duplicates", float64(o.duplicates), "msg")
	out.Add("new group, messages", float64(o.readers.delivered-o.readers.late-o.readers.redelivered), "msg")
}
