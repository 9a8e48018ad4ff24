package auth

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine/clock"
)

func writeKeys(t testing.TB, path, text string) {
	t.Helper()
	// A new file each time, as editors and secret mounts do: the inode tells it apart even within one tick of the clock.
	tmp := path + ".new"
	require.NoError(t, os.WriteFile(tmp, []byte(text), 0o600))
	require.NoError(t, os.Rename(tmp, path))
}

// TestKeys: a key is known by its hash only, ends at its time, and stops working when its entry is taken out.
func TestKeys(t *testing.T) {
	now, path := newManual(), filepath.Join(t.TempDir(), "keys.yaml")
	key, hash := NewKey(clock.RealRand().Fill)
	other, otherHash := NewKey(clock.RealRand().Fill)
	require.NotEqual(t, key, other)
	require.NoError(t, CheckKey(key))
	require.Equal(t, hash, HashKey(key))
	const tenant = "11111111-1111-1111-1111-111111111111"
	text := fmt.Sprintf("keys:\n  - name: billing\n    hash: %s\n    roles: [read-only, write-only]\n    tenant: %s\n"+
		"    expires: 2026-12-01T13:00:00Z\n  - {name: gateway, hash: %q, roles: [admin], tenant: \"*\"}\n", hash, tenant, otherHash)
	require.NotContains(t, text, key)
	writeKeys(t, path, text)
	var told []string
	keys, err := OpenKeys(path, now.Now, func(err error) { told = append(told, fmt.Sprint(err)) })
	require.NoError(t, err)

	p, err := keys.Authenticate(key)
	require.NoError(t, err)
	own, _ := ParseTenant(tenant)
	require.Equal(t, &Principal{Tenant: own, Subject: "billing", Roles: ReadOnly | WriteOnly,
		Expires: time.Date(2026, 12, 1, 13, 0, 0, 0, time.UTC)}, p)
	require.False(t, p.ActsFor(DefaultTenant))
	gateway, err := keys.Authenticate(other)
	require.NoError(t, err)
	require.True(t, gateway.ActsFor(own) && gateway.Tenant == DefaultTenant)
	for _, bad := range []string{key[:len(key)-1], key + "x", "", "qk_", strings.ToUpper(key), hash} {
		_, err = keys.Authenticate(bad)
		require.Equal(t, BadAPIKey, err, bad)
	}

	now.advance(time.Hour)
	_, err = keys.Authenticate(key)
	require.Equal(t, ExpiredKey, err)

	writeKeys(t, path, "keys: [")
	now.advance(time.Second)
	_, err = keys.Authenticate(other)
	require.NoError(t, err, "a broken file took the keys away")
	now.advance(time.Second)
	_, _ = keys.Authenticate(other)
	require.Len(t, told, 1, "the same was told twice")
	require.NoError(t, os.Remove(path))
	now.advance(time.Second)
	_, err = keys.Authenticate(other)
	require.NoError(t, err)
	writeKeys(t, path, "keys: []\n")
	_, err = keys.Authenticate(other)
	require.NoError(t, err, "it looked again within the second")
	now.advance(time.Second)
	_, err = keys.Authenticate(other)
	require.Equal(t, BadAPIKey, err, "a withdrawn key still worked")
	require.Len(t, told, 3)
	require.Equal(t, "<nil>", told[2])
}

// TestKeyFile: what is wrong with a file is named, with its place.
func TestKeyFile(t *testing.T) {
	_, a := NewKey(clock.RealRand().Fill)
	_, b := NewKey(clock.RealRand().Fill)
	entry := func(more string) string {
		return "keys:\n  - {name: a, hash: \"" + a + "\", roles: [admin]" + more + "}\n"
	}
	require.NoError(t, CheckKeys(nil))
	require.NoError(t, CheckKeys([]byte(entry(""))))
	for want, text := range map[string]string{
		"field rolls not found":      "keys:\n  - {name: a, rolls: [admin]}\n",
		"yaml":                       "keys: [",
		`key 1 (""): a name`:         "keys:\n  - {hash: \"" + a + "\", roles: [admin]}\n",
		"hash must be sha256":        "keys:\n  - {name: a, hash: abc, roles: [admin]}\n",
		"64 hex digits":              "keys:\n  - {name: a, hash: \"sha256:abcd\", roles: [admin]}\n",
		"roles are missing":          "keys:\n  - {name: a, hash: \"" + a + "\"}\n",
		`there is no role "root"`:    "keys:\n  - {name: a, hash: \"" + a + "\", roles: [root]}\n",
		"tenant must be a UUID":      entry(", tenant: acme"),
		"cannot parse":               entry(", expires: soon"),
		`two keys have the name "a"`: entry("") + "  - {name: a, hash: \"" + b + "\", roles: [admin]}\n",
		"that of another key":        entry("") + "  - {name: b, hash: \"" + a + "\", roles: [admin]}\n",
	} {
		require.ErrorContains(t, CheckKeys([]byte(text)), want)
	}
	for _, bad := range []string{"", "secret", "qk_short", "qk_" + strings.Repeat("x", 257)} {
		require.Error(t, CheckKey(bad), bad)
	}
	_, err := OpenKeys(filepath.Join(t.TempDir(), "none"), newManual().Now, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestChain: the form of a credential decides who judges it.
func TestChain(t *testing.T) {
	now, path := newManual(), filepath.Join(t.TempDir(), "keys.yaml")
	key, hash := NewKey(clock.RealRand().Fill)
	writeKeys(t, path, "keys:\n  - {name: app, hash: \""+hash+"\", roles: [read-only]}\n")
	keys, err := OpenKeys(path, now.Now, nil)
	require.NoError(t, err)
	tokens := tokensFor(t, TokenOptions{Secret: []byte(testSecret), Now: now.Now})
	token := sign(t, jwtHS256, []byte(testSecret), good(now.Now(), nil), nil)
	both, keysOnly, tokensOnly := &Chain{Keys: keys, Tokens: tokens}, &Chain{Keys: keys}, &Chain{Tokens: tokens}
	for name, c := range map[string]struct {
		a    *Chain
		c    Credentials
		want error
	}{
		"nothing":            {both, Credentials{}, Required},
		"token":              {both, Credentials{Secret: token}, nil},
		"key":                {both, Credentials{Secret: key}, nil},
		"name and key":       {both, Credentials{Username: "app", Password: key}, nil},
		"other name and key": {both, Credentials{Username: "root", Password: key}, BadAPIKey},
		"name and token":     {both, Credentials{Username: "$token", Password: token}, nil},
		"name alone":         {both, Credentials{Username: "app"}, Required},
		"token, keys only":   {keysOnly, Credentials{Secret: token}, BadHeader},
		"key, tokens only":   {tokensOnly, Credentials{Secret: key}, BadAPIKey},
	} {
		_, err := c.a.Authenticate(context.Background(), c.c)
		require.Equal(t, c.want, err, name)
	}
}

// TestFromHeaders: the ways to show a credential.
func TestFromHeaders(t *testing.T) {
	for _, c := range [][3]string{{"Bearer x", "", "x"}, {"bearer  x ", "", "x"}, {"BEARER x", "", "x"}, {"x", "", "x"},
		{"", "k", "k"}, {"Bearer x", "k", "x"}, {"Bearer ", "k", "k"}, {"Bearer", "", ""}, {"", "", ""}, {"Basic eDp5", "", "Basic eDp5"},
		{" ", " k ", "k"}} {
		require.Equal(t, Credentials{Secret: c[2]}, FromHeaders(c[0], c[1]), c)
	}
}

// TestLevels is the table of the contract, written out: levels are a set, not a ladder.
func TestLevels(t *testing.T) {
	for level, want := range map[Level]map[Roles]bool{
		LevelPublic:    {0: true, ReadOnly: true, WriteOnly: true, ReadWrite: true, Admin: true},
		LevelReadOnly:  {0: false, ReadOnly: true, WriteOnly: false, ReadWrite: true, Admin: true},
		LevelWriteOnly: {0: false, ReadOnly: false, WriteOnly: true, ReadWrite: true, Admin: true},
		LevelReadWrite: {0: false, ReadOnly: false, WriteOnly: false, ReadWrite: true, Admin: true, ReadOnly | WriteOnly: false},
		LevelAdmin:     {0: false, ReadOnly: false, WriteOnly: false, ReadWrite: false, Admin: true, Admin | ReadOnly: true},
		"root":         {Admin: false},
	} {
		for roles, may := range want {
			require.Equal(t, may, (&Principal{Roles: roles}).May(level), "%s for %s", level, roles)
		}
	}
	require.Equal(t, "admin,read-only", (Admin | ReadOnly).String())
}
