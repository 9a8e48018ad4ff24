package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"

	"queen/engine/format"
)

// key is a key made ready: the block cipher under it and the subkey of its message authentication (CMAC).
type key struct {
	block  cipher.Block
	subkey [aes.BlockSize]byte
}

const nonceHalf = format.SealNonce / 2

func newKey(raw [KeyBytes]byte) (*key, error) {
	block, err := aes.NewCipher(raw[:])
	if err != nil {
		return nil, err
	}
	k := &key{block: block}
	var l [aes.BlockSize]byte
	block.Encrypt(l[:], l[:])
	// The subkey is l doubled in GF(2^128), without a branch on secret bits.
	carry := byte(0)
	for i := len(l) - 1; i >= 0; i-- {
		k.subkey[i] = l[i]<<1 | carry
		carry = l[i] >> 7
	}
	k.subkey[len(l)-1] ^= byte(subtle.ConstantTimeSelect(int(carry), 0x87, 0))
	return k, nil
}

// of is the AEAD of one nonce: its key is a two-block derivation from the nonce's first half, by the counter mode of
// NIST SP 800-108 with CMAC. The second half is the nonce under that key.
func (k *key) of(nonce []byte) (cipher.AEAD, error) {
	var derived [KeyBytes]byte
	for i := range 2 {
		block := derived[i*aes.BlockSize : (i+1)*aes.BlockSize]
		block[1] = byte(i + 1)
		block[2] = 'X'
		copy(block[4:], nonce[:nonceHalf])
		subtle.XORBytes(block, block, k.subkey[:])
		k.block.Encrypt(block, block)
	}
	c, err := aes.NewCipher(derived[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(c)
}
