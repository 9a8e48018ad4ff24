package frontendkafka

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"queen/engine/format"
)

// Kinds of the parts of an entity.
const (
	quotaUser   = "user"
	quotaClient = "client-id"
	quotaIP     = "ip"
)

// The quotas that are enforced. Rows of older versions may have others, which can be removed.
const (
	producerRate = "producer_byte_rate"
	consumerRate = "consumer_byte_rate"
)

// quotaKeys are the names of quotas, by whether an address may have them or users and clients.
var quotaKeys = map[string]bool{"connection_creation_rate": true, producerRate: false, consumerRate: false,
	"request_percentage": false, "controller_mutation_rate": false}

// quotaName is one part of an entity: a name, or the default of all names.
type quotaName struct {
	kind string
	name string
	rest bool // the default of all names
}

// quotaDefault stands for the default in names of rows; a name can not be it because of its angle brackets.
const quotaDefault = "<default>"

// entity names who a quota is for: a user, a client id, both, or an address.
type entity []quotaName

// row is the name of the entity's row.
func (e entity) row() string {
	var parts []string
	for _, kind := range []string{quotaUser, quotaClient, quotaIP} {
		if n, ok := e.part(kind); ok {
			text := quotaDefault
			if !n.rest {
				text = url.QueryEscape(n.name)
			}
			parts = append(parts, kind+"="+text)
		}
	}
	return strings.Join(parts, ",")
}

func (e entity) part(kind string) (quotaName, bool) {
	for _, n := range e {
		if n.kind == kind {
			return n, true
		}
	}
	return quotaName{}, false
}

// parseEntity reads the name of a row.
func parseEntity(row string) (e entity, err error) {
	for _, p := range strings.Split(row, ",") {
		kind, text, _ := strings.Cut(p, "=")
		n := quotaName{kind: kind, rest: text == quotaDefault}
		if !n.rest {
			if n.name, err = url.QueryUnescape(text); err != nil {
				return nil, fmt.Errorf("a row of a quota has a broken name: %w", err)
			}
		}
		e = append(e, n)
	}
	return e, e.check()
}

// check tells what is wrong with an entity.
func (e entity) check() error {
	seen := map[string]bool{}
	for _, n := range e {
		if n.kind != quotaUser && n.kind != quotaClient && n.kind != quotaIP {
			return &fault{kerr.InvalidRequest, fmt.Sprintf("there are no quotas of a %.32q: there are %s, %s and %s", n.kind, quotaUser, quotaClient, quotaIP)}
		}
		if seen[n.kind] || len(n.name) > 80 || !n.rest && n.name == "" {
			return &fault{kerr.InvalidRequest, "an entity names each kind once, with 1 to 80 bytes"}
		}
		seen[n.kind] = true
	}
	if len(e) == 0 || seen[quotaIP] && len(e) > 1 {
		return &fault{kerr.InvalidRequest, "an entity is a user, a client id, both, or an address"}
	}
	return nil
}

// quotaRow is what a row holds.
type quotaRow struct {
	V   int                `json:"v"`
	Set map[string]float64 `json:"set"`

	at format.Place
}

const quotaVersion = 1

func decodeQuota(b []byte) (quotaRow, error) {
	var r quotaRow
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("a row of a quota does not decode: %w", err)
	}
	if r.V != quotaVersion {
		return r, fmt.Errorf("a row of a quota has version %d, and %d is known here", r.V, quotaVersion)
	}
	for key, v := range r.Set {
		if err := checkQuota(key, v, quotaKeys[key]); err != nil {
			return r, err
		}
	}
	return r, nil
}

// checkQuota tells what is wrong with a quota.
func checkQuota(key string, v float64, ofAddress bool) error {
	of, known := quotaKeys[key]
	switch {
	case !known || of != ofAddress:
		return &fault{kerr.InvalidRequest, fmt.Sprintf("such an entity has no quota %.64q", key)}
	case math.IsNaN(v) || v <= 0 || v > math.MaxInt64:
		return &fault{kerr.InvalidRequest, fmt.Sprintf("%s is a number above 0", key)}
	case key != "request_percentage" && key != "controller_mutation_rate" && v != math.Trunc(v):
		return &fault{kerr.InvalidRequest, fmt.Sprintf("%s is a whole number", key)}
	}
	return nil
}
