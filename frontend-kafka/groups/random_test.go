package groups

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Goal: whatever members of the classic protocol do, in whatever order, generations only rise, two members never have the
// assignment of one, and when they behave again the group becomes stable. Method: random schedules of joins, syncs, deaths,
// restarts of the coordinator and rows that can not be written; then everybody behaves.
func TestClassicRandom(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			r := newRig(t, func(o *Options) {
				if seed%3 == 0 {
					o.JoinDelay = 2 * time.Second
				}
			})
			var clients []*client
			for i := range 5 {
				c := r.client("range", "sticky")
				if i%2 == 1 {
					c = r.staticClient(fmt.Sprint("i", i), "range", "sticky")
				}
				clients = append(clients, c)
			}
			highest := int32(0)
			for range 400 {
				c := clients[rnd.IntN(len(clients))]
				switch n := rnd.IntN(100); {
				case n < 60:
					r.live(c)
				case n < 70:
					c.reset() // its process starts anew
				case n < 75:
					c.leave()
				case n < 77:
					// A restart of the coordinator: what waits is never answered.
					r.restart()
					for _, c := range clients {
						if c.phase == joining || c.phase == syncing {
							c.phase = idle
						}
					}
				case n < 79:
					r.store.fail = errors.New("no disk")
					r.live(c)
					r.store.fail = nil
				case n < 82:
					c.protocols[0].Metadata = fmt.Append(nil, rnd.IntN(3))
				default:
					r.pass(time.Duration(rnd.IntN(9000)) * time.Millisecond)
				}
				for _, c := range clients {
					if c.joined != nil && c.joined.ErrorCode == 0 && c.joined.Generation > highest {
						highest = c.joined.Generation
					}
				}
				r.mustRise(&highest)
				r.mustWeigh()
			}
			for turn := 0; ; turn++ {
				for _, c := range clients {
					r.live(c)
				}
				if r.settled(clients...) && r.members() == len(clients) {
					break
				}
				if turn > 120 {
					t.Fatalf("state %s with %d members after two minutes of good behaviour", r.state(), r.members())
				}
				r.pass(time.Second)
			}
		})
	}
}

// mustRise checks the generation in the row: it never falls below what a member was told and confirmed.
func (r *rig) mustRise(highest *int32) {
	if row, ok := r.store.rows[key("g")]; ok {
		text, err := parseRow(row.value)
		require.NoError(r.t, err)
		if text.Generation < r.rowGeneration {
			r.t.Fatalf("the row's generation fell from %d to %d", r.rowGeneration, text.Generation)
		}
		r.rowGeneration = text.Generation
	}
}

// Goal: whatever members of KIP-848 do, a partition never has two owners, epochs only rise, and when they behave everybody
// gets an even share. Method: as above, with members that lose answers, obey late, change subscriptions, and topics that
// come, go and widen. An owner is who consumes: who was told a partition, from then until it says that it does not any
// more, or is known to be gone.
func TestConsumerRandom(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			r := newRig(t, nil)
			r.topics.set("t", 5)
			r.topics.set("u", 3)
			subscriptions := [][]string{{"t"}, {"t", "u"}, {"u"}, {}}
			var members []*modern
			made := 0
			join := func() *modern {
				made++
				m := r.modern(fmt.Sprint("m", made), subscriptions[rnd.IntN(3)]...)
				if rnd.IntN(4) == 0 {
					m.regex = kmsg.StringPtr("t|u")
				}
				if rnd.IntN(3) == 0 {
					m.assignor = kmsg.StringPtr("range")
				}
				return m
			}
			for range 4 {
				members = append(members, join())
			}
			epoch := int32(0)
			for range 500 {
				i := rnd.IntN(len(members))
				m := members[i]
				switch n := rnd.IntN(100); {
				case n < 45:
					r.turn(m, rnd.IntN(3) > 0)
				case n < 55:
					before, told := m.epoch, m.told
					if r.turn(m, false); m.epoch >= before { // the answer is lost
						m.epoch, m.told = before, told
					}
				case n < 62:
					m.obey()
				case n < 66:
					m.leave(epochLeave)
					members[i] = join()
				case n < 70:
					members[i] = join() // it dies; whoever follows is another member
					members[i].topics = m.topics
					r.pass(46 * time.Second)
					for _, other := range members {
						other.restartIfGone()
					}
				case n < 74:
					m.topics = subscriptions[rnd.IntN(4)]
				case n < 77:
					r.topics.set([]string{"t", "u", "v"}[rnd.IntN(3)], int32(1+rnd.IntN(8)))
				case n < 78:
					r.topics.set("u", 0)
				case n < 81:
					r.restart()
				default:
					r.pass(time.Duration(rnd.IntN(2000)) * time.Millisecond)
					for _, other := range members {
						other.restartIfGone()
					}
				}
				r.oneOwner(members)
				r.mustWeigh()
				if row, ok := r.store.rows[key("g")]; ok {
					text, err := parseRow(row.value)
					require.NoError(t, err)
					require.GreaterOrEqual(t, text.Generation, epoch)
					epoch = text.Generation
				}
			}
			r.topics.set("t", 8)
			for range 60 {
				for _, m := range members {
					r.turn(m, true)
				}
				r.oneOwner(members)
				r.pass(time.Second)
			}
			r.pass(45 * time.Second) // who died without a word goes
			for _, m := range members {
				m.restartIfGone()
			}
			for range 10 {
				for _, m := range members {
					r.turn(m, true)
				}
			}
			require.Equal(t, "Stable", r.describeConsumer().State)
		})
	}
}

// turn is a heartbeat of a member that says everything, and does as it is told.
func (r *rig) turn(m *modern, obey bool) {
	r.t.Helper()
	if code := m.beat(); code != 0 {
		// Fenced, or forgotten: it lets go of everything and begins anew.
		m.epoch, m.owned, m.told = 0, assignment{}, nil
		return
	}
	if obey {
		m.obey()
	}
}

// restartIfGone is what a process does on its own when it could not reach its coordinator for a session: it lets go.
func (m *modern) restartIfGone() {
	g := m.r.describeGroup()
	for i := range g.Members {
		if g.Members[i].MemberID == m.id {
			return
		}
	}
	m.epoch, m.owned, m.told = 0, assignment{}, nil
}

func (r *rig) describeGroup() (out kmsg.ConsumerGroupDescribeResponseGroup) {
	_, _ = r.DescribeConsumer(r.t.Context(), key("g"), func([16]byte) string { return "" }, &out)
	return out
}

// oneOwner checks that no partition is consumed by two members.
func (r *rig) oneOwner(members []*modern) {
	r.t.Helper()
	owners := map[partition]string{}
	for _, m := range members {
		for id, list := range m.owned {
			for _, n := range list {
				p := partition{id, n}
				if owners[p] != "" && owners[p] != m.id {
					r.t.Fatalf("partition %d is consumed by %s and %s", n, owners[p], m.id)
				}
				owners[p] = m.id
			}
		}
	}
}
