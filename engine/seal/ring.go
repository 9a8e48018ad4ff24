package seal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// KeyBytes is the length of a key.
const KeyBytes = 32

// ringMax bounds the keys of a ring.
const ringMax = 1000

// Ring is a set of keys.
type Ring struct {
	keys  map[uint32]*key
	seals uint32
}

// NewRing is a ring of one key, number 1, from its 64 hex digits.
func NewRing(text string) (*Ring, error) {
	k, err := parseKey(text)
	if err != nil {
		return nil, err
	}
	return &Ring{keys: map[uint32]*key{1: k}, seals: 1}, nil
}

// ringFile is the YAML of a keyring.
type ringFile struct {
	// SealWith pins the key that seals; 0 takes the highest number.
	SealWith uint32 `yaml:"seal_with"`
	Keys     []struct {
		ID  uint32 `yaml:"id"`
		Key string `yaml:"key"`
	} `yaml:"keys"`
}

// ParseRing reads a keyring: keys with numbers from 1 and 64 hex digits. No error quotes a key.
func ParseRing(data []byte) (*Ring, error) {
	var f ringFile
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New(withoutValues(err))
	}
	if len(f.Keys) == 0 || len(f.Keys) > ringMax {
		return nil, fmt.Errorf("%d keys, want 1 to %d", len(f.Keys), ringMax)
	}
	r := &Ring{keys: make(map[uint32]*key, len(f.Keys)), seals: f.SealWith}
	highest := uint32(0)
	for i, e := range f.Keys {
		k, err := parseKey(e.Key)
		switch {
		case e.ID == 0:
			return nil, fmt.Errorf("key %d of the list: id must be a number from 1", i+1)
		case err != nil:
			return nil, fmt.Errorf("key %d: %w", e.ID, err)
		case r.keys[e.ID] != nil:
			return nil, fmt.Errorf("two keys have the number %d", e.ID)
		}
		r.keys[e.ID] = k
		highest = max(highest, e.ID)
	}
	if r.seals == 0 {
		r.seals = highest
	}
	if r.keys[r.seals] == nil {
		return nil, fmt.Errorf("seal_with: there is no key %d", r.seals)
	}
	return r, nil
}

// withoutValues cuts what the YAML library quotes from the file: it could be a key.
func withoutValues(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", " ")
	if at := strings.IndexByte(text, '`'); at >= 0 {
		text = text[:at] + "a value of another kind"
	}
	return text
}

func parseKey(text string) (*key, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != KeyBytes {
		return nil, fmt.Errorf("a key is %d hex digits", 2*KeyBytes)
	}
	if bytes.Count(raw, raw[:1]) == len(raw) {
		return nil, errors.New("a key of one repeated byte is none")
	}
	return newKey([KeyBytes]byte(raw))
}

// SealsWith is the number of the key that seals.
func (r *Ring) SealsWith() uint32 { return r.seals }
