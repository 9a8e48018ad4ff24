package frontendhttp

import (
	"fmt"
	"unicode/utf8"

	"github.com/go-faster/jx"

	"queen/engine"
	"queen/engine/format"
)

// ephemeralPushBody is a decoded push. Payloads alias the body; names are copies.
type ephemeralPushBody struct {
	queue, partition string
	payloads         [][]byte
}

// decode reads {"queue","partition"?,"messages":[{"payload":any},...]}. Unknown keys are ignored.
func (p *ephemeralPushBody) decode(body []byte) error {
	p.partition = format.DefaultPartition
	found := false
	err := ephemeralObject(body, func(d *jx.Decoder, key string) (err error) {
		switch key {
		case "queue":
			p.queue, err = ephemeralText(d, key)
		case "partition":
			p.partition, err = ephemeralText(d, key)
			if p.partition == "" {
				p.partition = format.DefaultPartition
			}
		case "messages":
			p.payloads, found = p.payloads[:0], true
			err = ephemeralList(d, key, func(d *jx.Decoder, at int) error {
				payload, err := ephemeralPayload(d, at)
				p.payloads = append(p.payloads, payload)
				return err
			})
		default:
			err = d.Skip()
		}
		return err
	})
	return orMissing(err, found, "messages")
}

// orMissing refuses a body without a list that it has to have: a name that is misspelt must not look like nothing to do.
func orMissing(err error, found bool, name string) error {
	if err == nil && !found {
		return badBody(name + " is missing")
	}
	return err
}

func (p *ephemeralPushBody) request() engine.EphemeralPush {
	return engine.EphemeralPush{Queue: p.queue, Partition: p.partition, Payloads: p.payloads}
}

// ephemeralPayload reads the payload of one message, as it was sent.
func ephemeralPayload(d *jx.Decoder, at int) (payload []byte, err error) {
	obj, err := d.ObjIter()
	if err != nil {
		return nil, badBody(fmt.Sprintf("message %d is not an object", at))
	}
	for obj.Next() {
		if string(obj.Key()) != "payload" {
			if err := d.Skip(); err != nil {
				return nil, badBody(err.Error())
			}
			continue
		}
		if payload, err = d.Raw(); err != nil {
			return nil, badBody(err.Error())
		}
	}
	if err := obj.Err(); err != nil {
		return nil, badBody(err.Error())
	}
	if payload == nil {
		return nil, badBody(fmt.Sprintf("message %d has no payload", at))
	}
	return payload, nil
}

// ephemeralAckBody is a decoded ack.
type ephemeralAckBody struct {
	queue, group string
	acks         []engine.EphemeralAck
}

// decode reads {"queue","group"?,"acks":[{"id","status"?,"error"?}]}. There are no dead letters here that an error
// could be kept with.
func (a *ephemeralAckBody) decode(body []byte) error {
	var ms jsonObject
	found := false
	err := ephemeralObject(body, func(d *jx.Decoder, key string) (err error) {
		switch key {
		case "queue":
			a.queue, err = ephemeralText(d, key)
		case "group":
			a.group, err = ephemeralText(d, key)
			a.group = groupName(a.group)
		case "acks":
			a.acks, found = a.acks[:0], true
			err = ephemeralList(d, key, func(d *jx.Decoder, at int) error {
				if ms, err = ms.object(d); err != nil {
					return badBody(fmt.Sprintf("ack %d is not an object", at))
				}
				ack, err := ephemeralAckItem(ms, at)
				a.acks = append(a.acks, ack)
				return err
			})
		default:
			err = d.Skip()
		}
		return err
	})
	return orMissing(err, found, "acks")
}

func ephemeralAckItem(ms jsonObject, at int) (a engine.EphemeralAck, err error) {
	var ok bool
	if a.ID, ok = ms.text("id"); !ok {
		return a, badBody(fmt.Sprintf("ack %d has no id", at))
	}
	status, ok := ms.textOr("status", "completed")
	switch {
	case ok && status == "completed":
	case ok && status == "failed":
		a.Status = engine.EphemeralFailed
	case ok && status == "retry":
		a.Status = engine.EphemeralRetry
	default:
		return a, badBody(fmt.Sprintf("status of ack %d must be completed, failed or retry", at))
	}
	return a, nil
}

// ephemeralObject walks the members of a whole body.
func ephemeralObject(body []byte, member func(d *jx.Decoder, key string) error) error {
	if !utf8.Valid(body) {
		return badBody("not UTF-8")
	}
	var d jx.Decoder
	d.ResetBytes(body)
	obj, err := d.ObjIter()
	if err != nil {
		return badBody("the body must be an object")
	}
	for obj.Next() {
		if err := member(&d, string(obj.Key())); err != nil {
			return asBadBody(err)
		}
	}
	if err := obj.Err(); err != nil {
		return badBody(err.Error())
	}
	return atEnd(&d)
}

// asBadBody keeps a refusal and makes one of a decoder's error.
func asBadBody(err error) error {
	if _, ok := err.(*refusal); ok {
		return err
	}
	return badBody(err.Error())
}

// ephemeralList walks an array of at most maxEphemeralItems; null is an empty one.
func ephemeralList(d *jx.Decoder, key string, each func(d *jx.Decoder, at int) error) error {
	if d.Next() == jx.Null {
		return d.Null()
	}
	arr, err := d.ArrIter()
	if err != nil {
		return badBody(key + " must be an array")
	}
	for at := 0; arr.Next(); at++ {
		if at == maxEphemeralItems {
			return badRequest(fmt.Sprintf("%s: more than %d in one call", key, maxEphemeralItems))
		}
		if err := each(d, at); err != nil {
			return err
		}
	}
	return arr.Err()
}

// ephemeralText reads a string; null is "".
func ephemeralText(d *jx.Decoder, key string) (string, error) {
	kind := d.Next()
	raw, err := d.Raw()
	if err != nil {
		return "", badBody(err.Error())
	}
	if kind == jx.Null {
		return "", nil
	}
	if kind == jx.String {
		if b, ok := unquote(raw); ok {
			return string(b), nil
		}
	}
	return "", badBody(key + " must be a string")
}

// ephemeralOptionNames are the options, which stand in "options" and nowhere else.
var ephemeralOptionNames = map[string]bool{"maxBytes": true, "maxLength": true, "policy": true, "ttlSeconds": true,
	"leaseSeconds": true, "retryLimit": true, "windowBuffer": true}

// ephemeralOptions reads the options of a declaration: a closed list of non-negative integers, the policy and the
// window (S-eph-3). What is absent or null has its default.
func ephemeralOptions(raw []byte) (engine.EphemeralSettings, error) {
	s := engine.EphemeralDefaults()
	numbers := map[string]*int64{"maxBytes": &s.MaxBytes, "maxLength": &s.MaxLength, "ttlSeconds": &s.TTLSeconds,
		"leaseSeconds": &s.LeaseSeconds, "retryLimit": &s.RetryLimit}
	err := optionMembers(raw, "options", func(key string, value []byte) error {
		switch {
		case numbers[key] != nil:
			return optionNumber(key, value, numbers[key])
		case key == "policy" && !absent(value):
			b, ok := []byte(nil), false
			if value[0] == '"' {
				b, ok = unquote(value)
			}
			if !ok || len(b) == 0 {
				return badRequest("policy must be reject or dropOldest")
			}
			s.Policy = engine.EphemeralPolicy(b)
		case key == "windowBuffer":
			return optionMembers(value, key, func(key string, value []byte) error {
				switch key {
				case "ms":
					return optionNumber("windowBuffer.ms", value, &s.Window.Millis)
				case "count":
					return optionNumber("windowBuffer.count", value, &s.Window.Count)
				}
				return badRequest("unknown option windowBuffer." + key)
			})
		case key != "policy":
			return badRequest("unknown option " + key)
		}
		return nil
	})
	return s, err
}

// optionMembers walks an object of options; absent and null have none.
func optionMembers(raw []byte, what string, each func(key string, value []byte) error) error {
	if absent(raw) {
		return nil
	}
	var d jx.Decoder
	d.ResetBytes(raw)
	ms, err := jsonObject(nil).object(&d)
	if err != nil {
		return badRequest(what + " must be an object")
	}
	for _, m := range ms {
		if err := each(string(m.key), m.value); err != nil {
			return err
		}
	}
	return nil
}

func optionNumber(key string, raw []byte, into *int64) error {
	if absent(raw) {
		return nil
	}
	n, ok := wholeNumber(raw)
	if !ok || n < 0 {
		return badRequest(key + " must be a whole number of 0 or more")
	}
	*into = n
	return nil
}
