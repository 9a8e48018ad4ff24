// Package seal encrypts the bodies of frames at rest: keys with numbers, and the sealing and opening of one frame.
//
// A frame is sealed with AES-256-GCM under a key made for this frame alone from the key of the ring and the first half
// of a random nonce of 24 bytes (the construction is known as XAES-256-GCM). With the usual 12 bytes a busy node would
// come into the range in which random nonces repeat within days.
//
// What it promises: what opens is what was sealed, in the partition it was sealed for. A missing key, a wrong key and
// changed bytes are errors, and no byte of a frame that does not open is given out.
//
// The key with the highest number seals, unless the file pins another one; every key opens. Rotation is: add a key to the
// file on every node, with the old one pinned where there are several nodes; take the pin out; drop the old key when
// retention has removed what it sealed.
//
// It deliberately stores no key and sends none anywhere; names, ids and times of messages are not its business and stay
// readable.
//
// Concurrency: a Ring does not change and is safe for concurrent use.
//
// Read first: Ring, ParseRing.
package seal
