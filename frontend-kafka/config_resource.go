package frontendkafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
	"queen/engine/format"
)

// configResource is one thing that can be configured, as it is now.
type configResource struct {
	names configNames
	// row names what is recorded, which belongs to life.
	row  string
	life format.UUID
	rec  recorded
	// values has every name, set those that somebody set; source is where those come from.
	values map[string]string
	set    map[string]bool
	source kmsg.ConfigSource
	// topic is the topic of one.
	topic *topic
}

const (
	aTopic  = kmsg.ConfigResourceTypeTopic
	aBroker = kmsg.ConfigResourceTypeBroker
	aLogger = kmsg.ConfigResourceTypeBrokerLogger
	aGroup  = kmsg.ConfigResourceTypeGroupConfig
)

// resource finds what a request names.
func (c *conn) resource(ctx context.Context, kind kmsg.ConfigResourceType, name string) (*configResource, error) {
	who := c.caller()
	r := &configResource{}
	var err error
	switch kind {
	case aTopic:
		if r.topic, err = c.f.topic(ctx, who, name); err != nil {
			return nil, err
		}
		r.names, r.row, r.life, r.source = topicConfigs, ofTopic+name, r.topic.queue.Topic, kmsg.ConfigSourceDynamicTopicConfig
	case aBroker:
		r.names, r.row, r.source = c.f.brokerConfigs(), ofBroker+name, kmsg.ConfigSourceDynamicBrokerConfig
		if name == "" {
			r.source = kmsg.ConfigSourceDynamicDefaultBrokerConfig
		} else if err := c.knownBroker(name); err != nil {
			return nil, err
		}
	case aLogger:
		return r, c.knownBroker(name)
	case aGroup:
		if name == "" || len(name) > 255 {
			return nil, &fault{kerr.InvalidGroupID, "a group has a name of 1 to 255 bytes"}
		}
		r.names, r.row, r.source = groupConfigs, ofGroup+name, kmsg.ConfigSourceGroupConfig
	default:
		return nil, &fault{kerr.InvalidRequest, fmt.Sprintf("resources of type %s have no configuration here", kind)}
	}
	if r.rec, err = c.f.recordedOf(who.Tenant, r.row, r.life); err != nil {
		return nil, err
	}
	if r.topic != nil {
		if r.values, r.set = c.f.effective(r.topic, r.rec); r.topic.internal() {
			r.describeInternal()
		}
		return r, nil
	}
	r.values, r.set = map[string]string{}, map[string]bool{}
	for _, n := range r.names {
		r.values[n.name] = n.def
	}
	for n, v := range r.rec.Set {
		r.values[n], r.set[n] = v, true
	}
	return r, nil
}

// knownBroker tells whether a name is a broker's number.
func (c *conn) knownBroker(name string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err == nil {
		for _, v := range c.cluster().voters {
			if v == int32(id) {
				return nil
			}
		}
	}
	return &fault{kerr.InvalidRequest, fmt.Sprintf("there is no broker %.32q", name)}
}

// alterAttempts is how often a change is made anew because another one came between.
const alterAttempts = 8

// alter changes what is set of a resource: change gets what is and makes of it what shall be.
func (c *conn) alter(ctx context.Context, kind kmsg.ConfigResourceType, name string, validate bool,
	change func(r *configResource) (map[string]string, error)) error {
	if (kind == aBroker || kind == aLogger) && !c.may(auth.LevelAdmin) {
		return kerr.ClusterAuthorizationFailed
	}
	if kind == aLogger {
		return &fault{kerr.InvalidRequest, "the level of the log is set when the node is started (log.level)"}
	}
	for range alterAttempts {
		r, err := c.resource(ctx, kind, name)
		if err != nil {
			return err
		}
		if r.topic != nil {
			if err := r.topic.changeable(); err != nil {
				return err
			}
		}
		set, err := change(r)
		if err != nil || validate {
			return err
		}
		who := c.caller()
		if r.topic != nil {
			err = c.f.apply(ctx, who, r.topic, r.rec, set)
		} else {
			err = c.f.record(ctx, who.Tenant, r.row, r.life, r.rec.at, set)
		}
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return errChanged
}

// check tells what is wrong with a value that a client sets.
func (c *conn) check(r *configResource, kind kmsg.ConfigResourceType, name, value string) error {
	if kind == aTopic {
		return c.checkTopicConfig(name, value)
	}
	n := r.names.find(name)
	switch {
	case n == nil:
		return &fault{kerr.InvalidConfig, fmt.Sprintf("unknown configuration %.64q", name)}
	case n.fixed && value != r.values[name]:
		return &fault{kerr.InvalidRequest, fmt.Sprintf("%s is set when the node is started", name)}
	}
	if err := n.valid(value); err != nil {
		return &fault{kerr.InvalidConfig, err.Error()}
	}
	return nil
}

// current is a copy of what is set, what the queue's own options say included.
func (r *configResource) current() map[string]string {
	set := maps.Clone(r.rec.Set)
	if set == nil {
		set = map[string]string{}
	}
	for name := range r.set {
		set[name] = r.values[name]
	}
	return set
}
