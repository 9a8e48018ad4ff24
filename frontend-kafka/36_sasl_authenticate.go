package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// SaslAuthenticate, 0 to 2: one token each way. v1 tells after how long the client must authenticate again.
func saslAuthenticateAPI() *api {
	return &api{key: 36, min: 0, max: 2, level: auth.LevelPublic, early: true, handle: saslAuthenticate}
}

func saslAuthenticate(_ context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.SASLAuthenticateRequest)
	resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	answer, done, err := c.step(req.SASLAuthBytes)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = codeOf(err), textOf(err)
		return resp, nil
	}
	if resp.SASLAuthBytes = answer; answer == nil {
		resp.SASLAuthBytes = []byte{}
	}
	if done {
		resp.SessionLifetimeMillis = c.lifetime()
	}
	return resp, nil
}
