package groups

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"queen/engine/format"
)

// Committer is who commits positions, as the request says. A Generation below 0 with an empty Member is nobody in
// particular: an administrator, or a consumer that assigns partitions by itself. With a Generation below 0 a group
// without members takes commits of everybody.
type Committer struct {
	Member     string
	Instance   *string
	Generation int32 // or member epoch
	// NoEpochs says that the request is of a version that knows no member epochs: what it tells is a generation.
	NoEpochs bool
	// Transactional commits of nobody in particular count whoever is in the group, and those of a member of the generation while its
	// assignment is being made, too: what was read in the generation before is still what the transaction is about.
	Transactional bool
}

// CommitFence judges a commit. With code 0 the positions may be committed while the group's row is the one written at
// fence; a commit that is refused for the row having changed is to be judged again.
func (m *Manager) CommitFence(ctx context.Context, k Key, c Committer) (fence format.Place, code int16) {
	if code := checkName(k.Group); code != 0 {
		return fence, code
	}
	err := m.with(ctx, k, func(g *group) {
		fence = g.row
		code = g.mayCommit(&c)
	})
	if err != nil {
		return fence, m.codeOf(k, err)
	}
	return fence, code
}

func (g *group) mayCommit(c *Committer) int16 {
	if c.Generation < 0 && len(g.members) == 0 && g.consumer.size() == 0 {
		return 0 // whoever it says it is: consumers that assign partitions by themselves may tell an instance
	}
	if c.Member == "" && c.Generation < 0 && c.Instance == nil {
		if c.Transactional {
			return 0
		}
		return kerr.UnknownMemberID.Code
	}
	if g.consumer != nil && g.consumer.size() > 0 {
		return g.consumer.mayCommit(c)
	}
	if len(g.members) == 0 && c.Member == "" {
		return kerr.IllegalGeneration.Code
	}
	m, code := g.current(c.Member, c.Instance, c.Generation)
	switch {
	case code != 0:
		return code
	case g.state == Completing && !c.Transactional:
		return kerr.RebalanceInProgress.Code
	}
	g.alive(m)
	return 0
}

// CheckFetch judges a request for positions that names a member (KIP-848); one that does not may read whatever it likes.
func (m *Manager) CheckFetch(ctx context.Context, k Key, member *string, epoch int32) (code int16) {
	if member == nil && epoch < 0 {
		return 0
	}
	err := m.with(ctx, k, func(g *group) {
		if g.consumer == nil || g.consumer.size() == 0 {
			return // members of the classic protocol have no epoch
		}
		id := ""
		if member != nil {
			id = *member
		}
		code = g.consumer.current(id, epoch)
	})
	if err != nil {
		return m.codeOf(k, err)
	}
	return code
}

// Delete removes a group without members, with its positions. exists says whether a group without a row is there, too:
// one that only has positions.
func (m *Manager) Delete(ctx context.Context, k Key, exists func() (bool, error)) (code int16) {
	if code := checkName(k.Group); code != 0 {
		return code
	}
	err := m.with(ctx, k, func(g *group) {
		if len(g.members) > 0 || len(g.pending) > 0 || g.consumer.size() > 0 {
			code = kerr.NonEmptyGroup.Code
			return
		}
		if g.row == (format.Place{}) {
			there, err := exists()
			if err != nil {
				code = m.codeOf(k, err)
				return
			}
			if !there {
				code = kerr.GroupIDNotFound.Code
				return
			}
		}
		switch err := m.o.Store.Delete(ctx, k, g.row); {
		case errors.Is(err, ErrFenced):
			code = kerr.NotCoordinator.Code
		case err != nil:
			code = m.codeOf(k, err)
		}
		g.forget()
	})
	if err != nil {
		return m.codeOf(k, err)
	}
	return code
}

// Subscribed judges the removal of positions (OffsetDelete): whole is a code about the request, and in tells which topics
// a live member is subscribed to.
func (m *Manager) Subscribed(ctx context.Context, k Key, exists func() (bool, error)) (in func(topic string) bool, whole int16) {
	in = func(string) bool { return false }
	if code := checkName(k.Group); code != 0 {
		return in, code
	}
	err := m.with(ctx, k, func(g *group) {
		switch {
		case g.consumer.size() > 0:
			topics := g.consumer.subscriptions()
			in = func(t string) bool { return topics[t] }
		case len(g.members) > 0 && g.protocolType == consumerType:
			topics, all := g.classicSubscriptions()
			in = func(t string) bool { return all || topics[t] }
		case len(g.members) > 0:
			whole = kerr.NonEmptyGroup.Code
		case g.row == (format.Place{}):
			there, err := exists()
			if err != nil {
				whole = m.codeOf(k, err)
			} else if !there {
				whole = kerr.GroupIDNotFound.Code
			}
		}
	})
	if err != nil {
		return in, m.codeOf(k, err)
	}
	return in, whole
}
