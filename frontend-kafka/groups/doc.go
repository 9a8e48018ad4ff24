// Package groups coordinates Kafka's consumer groups: the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup)
// with static members, and the one of KIP-848 (ConsumerGroupHeartbeat).
//
// It is a state machine over a Store of one row per group and a Clock; it knows no socket and no engine. Generations,
// members and assignments are in the row before anybody is told of them, so that another coordinator, or this one after a
// restart, goes on without a rebalance. A row is only written while it still is what this coordinator wrote last: one that
// was overtaken lets go of the group and answers NOT_COORDINATOR. Positions are committed by the caller under the same
// fence, which CommitFence tells.
//
// Requests that wait (a join for the other members, a sync for the leader) are answered by a callback, which is called with
// the group locked and must not block. Every group has a lock, which is held while its row is written: requests of one
// group go one after the other. Timers of all groups are in one heap (timers.go), fired by Run.
//
// It deliberately remembers nothing of groups without members: what is left of them is the row.
//
// Read first: manager.go, group.go, join.go, consumer.go.
package groups
