package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// DeleteTopics, 1 to 6. v5 tells why not, v6 takes ids. The queue goes with everything in it: native messages, positions
// of consumer groups, configuration.
func deleteTopicsAPI() *api {
	return &api{key: 20, min: 1, max: 6, level: auth.LevelAdmin, handle: deleteTopics, refuse: func(r *request, code int16) kmsg.Response {
		resp := r.req.ResponseKind().(*kmsg.DeleteTopicsResponse)
		for _, t := range deletions(r.req.(*kmsg.DeleteTopicsRequest)) {
			row := kmsg.NewDeleteTopicsResponseTopic()
			row.Topic, row.TopicID, row.ErrorCode = t.Topic, t.TopicID, code
			resp.Topics = append(resp.Topics, row)
		}
		return resp
	}}
}

// deletions are the topics of a request of any version.
func deletions(req *kmsg.DeleteTopicsRequest) []kmsg.DeleteTopicsRequestTopic {
	if req.Version >= 6 {
		return req.Topics
	}
	all := make([]kmsg.DeleteTopicsRequestTopic, len(req.TopicNames))
	for i := range all {
		all[i].Topic = &req.TopicNames[i]
	}
	return all
}

func deleteTopics(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DeleteTopicsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	for _, t := range deletions(req) {
		row := kmsg.NewDeleteTopicsResponseTopic()
		row.Topic, row.TopicID = t.Topic, t.TopicID
		if err := c.deleteOne(ctx, &row); err != nil {
			row.ErrorCode, row.ErrorMessage = controllerCode(err), textOf(err)
		}
		resp.Topics = append(resp.Topics, row)
	}
	return resp, nil
}

// deleteTries bounds how often a topic is looked for anew because the one that was found was another's life already.
const deleteTries = 4

// deleteOne deletes the topic that the row names, by name or by id. What is deleted is the life that was found and no
// other: a node that is behind may know of one that was deleted and made again meanwhile.
func (c *conn) deleteOne(ctx context.Context, row *kmsg.DeleteTopicsResponseTopic) (err error) {
	who, byID := c.caller(), row.TopicID != [16]byte{}
	for range deleteTries {
		var t *topic
		switch {
		case row.Topic != nil && byID:
			return &fault{kerr.InvalidRequest, "a topic is named by its name or by its id, not by both"}
		case byID:
			t, err = c.f.topicByID(ctx, who, row.TopicID)
		case row.Topic != nil:
			t, err = c.f.topic(ctx, who, *row.Topic)
		default:
			return kerr.UnknownTopicID
		}
		if err == nil {
			err = t.changeable()
		}
		if err != nil {
			return err
		}
		existed, err := c.f.engine.Catalog().DeleteLife(ctx, who, t.name, t.queue.ID)
		switch {
		case err != nil:
			return err
		case existed:
			c.f.forgetTopic(ctx, who.Tenant, t)
			row.Topic, row.TopicID = &t.name, t.id
			return nil
		case byID:
			return kerr.UnknownTopicID
		}
		if err := c.f.engine.Catalog().CatchUp(ctx, who); err != nil {
			return err
		}
	}
	return errChanged
}
