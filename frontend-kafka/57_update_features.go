package frontendkafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// UpdateFeatures, 0 to 2: levels of features are those of the build. One that is there already is fine.
func updateFeaturesAPI() *api {
	return &api{key: 57, min: 0, max: 2, level: auth.LevelAdmin, handle: updateFeatures, refuse: func(r *request, code int16) kmsg.Response {
		resp := r.req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
		resp.ErrorCode = code
		return resp
	}}
}

func updateFeatures(_ context.Context, _ *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.UpdateFeaturesRequest)
	resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	for _, u := range req.FeatureUpdates {
		err := error(&fault{kerr.FeatureUpdateFailed, fmt.Sprintf("the level of %.64q is that of the build", u.Feature)})
		for _, f := range features {
			if f.name == u.Feature && f.level == u.MaxVersionLevel {
				err = nil
			}
		}
		if req.Version < 2 {
			resp.Results = append(resp.Results, kmsg.UpdateFeaturesResponseResult{Feature: u.Feature, ErrorCode: codeOf(err), ErrorMessage: textOf(err)})
		}
		if err != nil && resp.ErrorCode == 0 {
			resp.ErrorCode, resp.ErrorMessage = codeOf(err), textOf(err)
		}
	}
	return resp, nil
}
