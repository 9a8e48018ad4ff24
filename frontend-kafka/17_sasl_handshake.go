package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// SaslHandshake, 0 to 1: chooses a mechanism. After v0 tokens are sent bare, after v1 in SaslAuthenticate.
func saslHandshakeAPI() *api {
	return &api{key: 17, min: 0, max: 1, level: auth.LevelPublic, early: true, handle: saslHandshake}
}

func saslHandshake(_ context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.SASLHandshakeRequest)
	resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
	for _, m := range c.l.SASL {
		resp.SupportedMechanisms = append(resp.SupportedMechanisms, string(m))
	}
	resp.ErrorCode = codeOf(c.choose(Mechanism(req.Mechanism), req.Version == 0))
	return resp, nil
}
