package frontendkafka

import (
	"cmp"
	"context"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// ApiVersions, 0 to 4: which keys at which versions. The answer is the table, alike on every listener, before and after
// authentication. v3 adds the client's software and the features; v3 must not tell of features that start at 0.
func apiVersionsAPI() *api {
	return &api{key: apiVersionsKey, min: 0, max: 4, level: auth.LevelPublic, early: true, handle: apiVersions}
}

const apiVersionsKey = 18

// softwareWord is what names and versions of clients are made of.
var softwareWord = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// features are what clients switch their behaviour on by; levels are finalized ones.
var features = []struct {
	name     string
	min, max int16
	level    int16
}{
	{"group.version", 0, 1, 1},
	{"metadata.version", 7, 29, 29},
	{"transaction.version", 0, 2, 2},
}

func apiVersions(_ context.Context, c *conn, r *request) (kmsg.Response, error) {
	resp := kmsg.NewPtrApiVersionsResponse()
	if r.req == nil {
		// A client of the future: it understands version 0 and looks for this key's own window in it.
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{r.api.window()}
		return resp, nil
	}
	resp.Version = r.version
	req := r.req.(*kmsg.ApiVersionsRequest)
	if r.version >= 3 {
		if !softwareWord.MatchString(req.ClientSoftwareName) || !softwareWord.MatchString(req.ClientSoftwareVersion) ||
			len(req.ClientSoftwareName)+len(req.ClientSoftwareVersion) > 256 {
			resp.ErrorCode = kerr.InvalidRequest.Code
			return resp, nil
		}
		software := req.ClientSoftwareName + " " + req.ClientSoftwareVersion
		c.software.Store(&software)
	}
	for _, a := range c.f.table {
		resp.ApiKeys = append(resp.ApiKeys, a.window())
	}
	slices.SortFunc(resp.ApiKeys, func(a, b kmsg.ApiVersionsResponseApiKey) int { return cmp.Compare(a.ApiKey, b.ApiKey) })
	resp.FinalizedFeaturesEpoch = 0
	for _, f := range features {
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{Name: f.name,
			MinVersionLevel: f.level, MaxVersionLevel: f.level})
		if f.min > 0 || r.version >= 4 {
			resp.SupportedFeatures = append(resp.SupportedFeatures, kmsg.ApiVersionsResponseSupportedFeature{Name: f.name,
				MinVersion: f.min, MaxVersion: f.max})
		}
	}
	return resp, nil
}

// window is what clients are told of a row.
func (a *api) window() kmsg.ApiVersionsResponseApiKey {
	w := kmsg.ApiVersionsResponseApiKey{ApiKey: a.key, MinVersion: a.min, MaxVersion: a.max}
	if a.told != nil {
		w.MinVersion = *a.told
	}
	return w
}
