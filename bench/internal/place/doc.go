// Package place is what the clients of a campaign talk to: one node, which the campaign ends and starts again itself, or a
// cluster that has faults done to it for a while. On a cluster a client whose node does not answer goes to another one, and the
// campaign goes through its input in rounds, for as long as the faults last.
//
// Read first: Place, Trial and its OnCluster.
package place
