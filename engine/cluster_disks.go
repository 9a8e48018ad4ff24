package engine

import (
	"context"
	"encoding/binary"
	"strconv"

	"queen/engine/format"
)

// diskRow is the length of the row that remembers a node's disk: its id, then how often it was opened.
const diskRow = 16 + 8

// DiskOf implements Peer.
func (n *Node) DiskOf(node format.Replica) (d Disk, ok bool) {
	row, ok := n.AdminRow(format.SystemTenant, format.AdminNode, strconv.FormatUint(uint64(node), 10))
	if !ok || len(row.Value) != diskRow {
		return d, false
	}
	copy(d.ID[:], row.Value)
	d.Boot = binary.LittleEndian.Uint64(row.Value[16:])
	return d, true
}

// NoteDisk implements Peer. A full disk does not keep it: a disk of which nothing is known, or too little, may come back as an older copy of
// itself and vote once more.
func (n *Node) NoteDisk(ctx context.Context, node format.Replica, d Disk) error {
	_, err := n.setAdmin(ctx, format.SystemTenant, &AdminChange{Kind: format.AdminNode, Name: strconv.FormatUint(uint64(node), 10),
		Value: binary.LittleEndian.AppendUint64(append([]byte(nil), d.ID[:]...), d.Boot)})
	return err
}

// Standing implements Peer.
func (n *Node) Standing() Standing {
	n.state.RLock()
	defer n.state.RUnlock()
	m := n.state.m
	mark, _ := m.Marks()
	return Standing{Cluster: m.Genesis().Cluster, Leads: n.cluster.leads.Load() != 0, Born: m.Born(), Epoch: m.Epoch(), Applied: m.Applied(), Mark: mark,
		Full: n.full.Load() || n.seq.Log().PoolLow()}
}

// deploymentName is the row that stands beside those of the nodes' disks, whose names are numbers.
const deploymentName = "deployment"

// Deployment implements Peer.
func (n *Node) Deployment() uint64 {
	row, ok := n.AdminRow(format.SystemTenant, format.AdminNode, deploymentName)
	if !ok || len(row.Value) != 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(row.Value)
}

// NoteDeployment implements Peer.
func (n *Node) NoteDeployment(ctx context.Context, d uint64) error {
	_, err := n.SetAdmin(ctx, format.SystemTenant, AdminChange{Kind: format.AdminNode, Name: deploymentName,
		Value: binary.LittleEndian.AppendUint64(nil, d)})
	return err
}
