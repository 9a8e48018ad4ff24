package format

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// PartitionNumber is the number that Kafka clients know a partition by: its name is that number in decimal, without
// sign or leading zeros, below 2^31-1. Partitions of other names are hidden from them.
func PartitionNumber[T string | []byte](name T) (n uint32, ok bool) {
	if len(name) == 0 || len(name) > 10 || name[0] == '0' && len(name) > 1 {
		return 0, false
	}
	v := uint64(0)
	for i := range len(name) {
		if name[i] < '0' || name[i] > '9' {
			return 0, false
		}
		v = v*10 + uint64(name[i]-'0')
	}
	return uint32(v), v < 1<<31-1
}

// TopicID is the id by which Kafka clients know one life of a queue:
//
//	| hash of cluster and raft group, 8 bytes, with version 8 | variant and raft group | queue id, 7 bytes big-endian |
//
// It is never zero and none of the ids that Kafka reserves, which are small numbers.
func TopicID(cluster UUID, g RaftGroup, q QueueID) (id UUID) {
	h := xxh3.Hash(append(cluster[:], byte(g)))
	binary.BigEndian.PutUint64(id[:], h&^(0xf<<12)|8<<12)
	binary.BigEndian.PutUint64(id[8:], (uint64(0x80)|uint64(g)&63)<<56|uint64(q)&(1<<56-1))
	return id
}

// TopicQueue is the queue of a TopicID of the cluster and the raft group; false for any other id.
func TopicQueue(cluster UUID, g RaftGroup, id UUID) (QueueID, bool) {
	q := QueueID(binary.BigEndian.Uint64(id[8:]) & (1<<56 - 1))
	return q, q != 0 && TopicID(cluster, g, q) == id
}
