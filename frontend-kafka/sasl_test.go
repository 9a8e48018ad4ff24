package frontendkafka

import (
	"context"
	"crypto/hmac"
	"encoding/binary"
	"encoding/json"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	xdg "github.com/xdg-go/scram"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/clock"
	"queen/engine/format"
)

// door is an authenticator that a test opens and closes.
type door struct {
	known  map[string]*auth.Principal // by password
	closed atomic.Bool
}

func (d *door) Authenticate(_ context.Context, c auth.Credentials) (*auth.Principal, error) {
	p := d.known[c.Password]
	if p == nil || d.closed.Load() {
		return nil, auth.BadSignature
	}
	return p, nil
}

// shifted is the system's clock, moved on by a test.
type shifted struct {
	clock.Clock
	by atomic.Int64 // microseconds
}

func (s *shifted) Now() int64  { return s.Clock.Now() + s.by.Load() }
func (s *shifted) Mono() int64 { return s.Clock.Mono() + s.by.Load() }

var tenantB = auth.Tenant{0: 0xb, 15: 1}

// startSASL serves a listener that asks who calls and one that does not.
func startSASL(t *testing.T, d *door, tune func(*Options)) (n *testNode, open string) {
	n = start(t, func(o *Options) {
		o.Auth = d
		all := []Mechanism{Plain, ScramSHA256, ScramSHA512}
		o.Listeners = []Listener{{Listener: o.Listeners[0].Listener, Name: "SASL_PLAINTEXT", SASL: all}, {Listener: listen(t)}}
		if tune != nil {
			tune(o)
		}
	})
	return n, n.f.opts.Listeners[1].Listener.Addr().String()
}

func newDoor() *door {
	return &door{known: map[string]*auth.Principal{
		"rw":    {Tenant: auth.DefaultTenant, Subject: "writer", Roles: auth.ReadWrite},
		"ro":    {Tenant: auth.DefaultTenant, Subject: "reader", Roles: auth.ReadOnly},
		"admin": {Tenant: auth.DefaultTenant, Subject: "root", Roles: auth.Admin},
		"b":     {Tenant: tenantB, Subject: "b", Roles: auth.Admin},
	}}
}

func asPlain(password string) kgo.Opt {
	return kgo.SASL(plain.Auth{User: "label", Pass: password}.AsMechanism())
}

// Goal: a client is who its credential says: its roles and its tenant.
func TestPlain(t *testing.T) {
	n, _ := startSASL(t, newDoor(), nil)
	ctx := context.Background()
	rw := kadm.NewClient(n.client(asPlain("rw")))
	_, err := rw.CreateTopic(ctx, 1, 1, nil, "t")
	require.NoError(t, err)
	_, err = kadm.NewClient(n.client(asPlain("ro"))).CreateTopic(ctx, 1, 1, nil, "u")
	require.ErrorIs(t, err, kerr.ClusterAuthorizationFailed)
	ds, err := rw.DeleteTopics(ctx, "t")
	require.NoError(t, err)
	require.ErrorIs(t, ds["t"].Err, kerr.ClusterAuthorizationFailed)

	b := kadm.NewClient(n.client(asPlain("b")))
	found, err := b.ListTopics(ctx)
	require.NoError(t, err)
	require.Empty(t, found)
	_, err = b.CreateTopic(ctx, 2, 1, nil, "t")
	require.NoError(t, err)
	_, err = n.engine.Catalog().Topic(ctx, engine.Caller{Tenant: format.Tenant(tenantB)}, "t")
	require.NoError(t, err)
	mine, err := rw.ListTopics(ctx)
	require.NoError(t, err)
	require.Len(t, mine["t"].Partitions, 1)

	err = n.client(asPlain("wrong")).Ping(ctx)
	require.ErrorIs(t, err, kerr.SaslAuthenticationFailed)
}

// authenticate goes through a handshake and one token.
func (r *raw) authenticate(mechanism string, token []byte) *kmsg.SASLAuthenticateResponse {
	hand := kmsg.NewPtrSASLHandshakeRequest()
	hand.Version, hand.Mechanism = 1, mechanism
	require.Zero(r.t, r.ask(hand).(*kmsg.SASLHandshakeResponse).ErrorCode)
	return r.token(token)
}

func (r *raw) token(token []byte) *kmsg.SASLAuthenticateResponse {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = 2, token
	return r.ask(req).(*kmsg.SASLAuthenticateResponse)
}

// Goal: who is not known gets nothing but the way to become known, and is told why not before the connection ends.
func TestStrangers(t *testing.T) {
	n, open := startSASL(t, newDoor(), nil)
	c := n.dial()
	c.ask(kmsg.NewPtrApiVersionsRequest())
	c.send(kmsg.NewPtrMetadataRequest())
	c.closed()
	require.Contains(t, n.logged.String(), "has not authenticated")

	c = n.dial()
	_, err := c.Write(binary.BigEndian.AppendUint32(nil, strangerFrame+1))
	require.NoError(t, err)
	c.closed()

	c = n.dial()
	require.Equal(t, kerr.IllegalSaslState.Code, c.token([]byte("\x00u\x00rw")).ErrorCode)
	c.closed()

	for _, token := range []string{"\x00u\x00no", "other\x00u\x00rw", "\x00\x00rw", "\x00u\x00", "rw", "\x00u\x00rw\x00"} {
		c := n.dial()
		got := c.authenticate("PLAIN", []byte(token))
		require.Equal(t, kerr.SaslAuthenticationFailed.Code, got.ErrorCode, "%q", token)
		require.NotEmpty(t, *got.ErrorMessage)
		c.closed()
	}
	require.Zero(t, n.dial().authenticate("PLAIN", []byte("u\x00u\x00rw")).ErrorCode)

	// An unknown mechanism leaves the exchange as it was.
	c = n.dial()
	hand := kmsg.NewPtrSASLHandshakeRequest()
	hand.Version, hand.Mechanism = 1, "PLAIN"
	require.Zero(t, c.ask(hand).(*kmsg.SASLHandshakeResponse).ErrorCode)
	hand.Mechanism = "GSSAPI"
	no := c.ask(hand).(*kmsg.SASLHandshakeResponse)
	require.Equal(t, kerr.UnsupportedSaslMechanism.Code, no.ErrorCode)
	require.Equal(t, []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}, no.SupportedMechanisms)
	require.Zero(t, c.token([]byte("\x00u\x00rw")).ErrorCode)
	c.ask(kmsg.NewPtrMetadataRequest())

	// A listener that asks nobody says so.
	hand.Mechanism = "PLAIN"
	require.Equal(t, kerr.IllegalSaslState.Code, dialTo(t, open).ask(hand).(*kmsg.SASLHandshakeResponse).ErrorCode)
}

// Goal: clients of old that send bare tokens are served.
func TestRawTokens(t *testing.T) {
	n, _ := startSASL(t, newDoor(), nil)
	c := n.dial()
	hand := kmsg.NewPtrSASLHandshakeRequest()
	hand.Mechanism = "PLAIN"
	require.Zero(t, c.ask(hand).(*kmsg.SASLHandshakeResponse).ErrorCode)
	c.frame([]byte("\x00u\x00rw"))
	var size [4]byte
	_, err := io.ReadFull(c, size[:])
	require.NoError(t, err)
	require.Zero(t, binary.BigEndian.Uint32(size[:]))
	c.ask(kmsg.NewPtrMetadataRequest())

	c = n.dial()
	c.ask(hand)
	c.frame([]byte("\x00u\x00no"))
	c.closed()
}

// Goal: a credential that ends, or is withdrawn, ends what it opened; a new one goes on.
func TestLifetime(t *testing.T) {
	d, c := newDoor(), &shifted{Clock: clock.Real()}
	d.known["short"] = &auth.Principal{Tenant: auth.DefaultTenant, Roles: auth.ReadWrite, Expires: time.Now().Add(time.Hour)}
	n, _ := startSASL(t, d, func(o *Options) { o.Clock = c })
	r := n.dial()
	got := r.authenticate("PLAIN", []byte("\x00u\x00short"))
	require.InDelta(t, time.Hour.Milliseconds(), got.SessionLifetimeMillis, 60_000)
	lasting := n.dial()
	require.Zero(t, lasting.authenticate("PLAIN", []byte("\x00u\x00rw")).SessionLifetimeMillis)
	c.by.Add(2 * time.Hour.Microseconds())
	lasting.ask(kmsg.NewPtrMetadataRequest())
	d.known["short"] = &auth.Principal{Tenant: auth.DefaultTenant, Roles: auth.ReadWrite, Expires: time.Now().Add(3 * time.Hour)}
	require.Zero(t, r.authenticate("PLAIN", []byte("\x00u\x00short")).ErrorCode)
	r.ask(kmsg.NewPtrMetadataRequest())
	c.by.Add(2 * time.Hour.Microseconds())
	r.send(kmsg.NewPtrMetadataRequest())
	r.closed()
	require.Contains(t, n.logged.String(), "the credential has ended")

	// Nobody becomes somebody else on the way.
	other := n.dial()
	require.Zero(t, other.authenticate("PLAIN", []byte("\x00u\x00rw")).ErrorCode)
	require.Equal(t, kerr.SaslAuthenticationFailed.Code, other.authenticate("PLAIN", []byte("\x00u\x00admin")).ErrorCode)
	other.closed()

	d.closed.Store(true)
	c.by.Add(2 * recheckEvery.Microseconds())
	lasting.send(kmsg.NewPtrMetadataRequest())
	lasting.closed()
}

// Goal: users come and go by the protocol, and log in with SCRAM and with PLAIN; a changed password ends sessions.
func TestScram(t *testing.T) {
	c := &shifted{Clock: clock.Real()}
	n, open := startSASL(t, newDoor(), func(o *Options) { o.Clock, o.Auth = c, nil })
	ctx := context.Background()
	admin := kadm.NewClient(n.client(kgo.SeedBrokers(open)))
	upsert := func(m kadm.ScramMechanism, password string) error {
		rs, err := admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: "ann", Mechanism: m, Iterations: 4096, Password: password}})
		require.NoError(t, err)
		return rs["ann"].Err
	}
	require.NoError(t, upsert(kadm.ScramSha256, "one"))
	require.NoError(t, upsert(kadm.ScramSha512, "two"))
	all, err := admin.DescribeUserSCRAMs(ctx)
	require.NoError(t, err)
	require.Len(t, all["ann"].CredInfos, 2)
	rs, err := admin.DescribeUserSCRAMs(ctx, "bob")
	require.NoError(t, err)
	require.ErrorIs(t, rs["bob"].Err, kerr.ResourceNotFound)

	ping := func(m kgo.Opt) error { return n.client(m).Ping(ctx) }
	s256 := func(user, pass string) kgo.Opt {
		return kgo.SASL(scram.Auth{User: user, Pass: pass}.AsSha256Mechanism())
	}
	s512 := func(user, pass string) kgo.Opt {
		return kgo.SASL(scram.Auth{User: user, Pass: pass}.AsSha512Mechanism())
	}
	require.NoError(t, ping(s256("ann", "one")))
	require.NoError(t, ping(s512("ann", "two")))
	require.NoError(t, ping(kgo.SASL(plain.Auth{User: "ann", Pass: "one"}.AsMechanism())))
	for _, bad := range []kgo.Opt{s256("ann", "two"), s512("ann", "one"), s256("bob", "one"),
		kgo.SASL(plain.Auth{User: "ann", Pass: "two"}.AsMechanism()), kgo.SASL(plain.Auth{User: "bob", Pass: "one"}.AsMechanism())} {
		require.ErrorIs(t, ping(bad), kerr.SaslAuthenticationFailed)
	}

	r := n.dial()
	require.Zero(t, r.authenticate("PLAIN", []byte("\x00ann\x00one")).ErrorCode)
	r.ask(kmsg.NewPtrMetadataRequest())
	require.NoError(t, upsert(kadm.ScramSha256, "three"))
	c.by.Add(2 * recheckEvery.Microseconds())
	r.send(kmsg.NewPtrMetadataRequest())
	r.closed()

	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		rs, err := admin.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: "ann", Mechanism: m}}, nil)
		require.NoError(t, err)
		require.NoError(t, rs["ann"].Err)
	}
	require.Empty(t, n.engine.AdminRows(format.SystemTenant, format.AdminKafkaUser, "", 9))
	require.ErrorIs(t, ping(s512("ann", "two")), kerr.SaslAuthenticationFailed)
}

// Goal: a user's key has bounds, a request one word about each, and another tenant's user can not be touched or seen.
func TestUserRefusals(t *testing.T) {
	n, _ := startSASL(t, newDoor(), nil)
	ask := func(password string, req kmsg.Request) kmsg.Response {
		r := n.dial()
		require.Zero(t, r.authenticate("PLAIN", []byte("\x00u\x00"+password)).ErrorCode)
		return r.ask(req)
	}
	up := func(name string, m int8, iterations int32, salted int) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
		return kmsg.AlterUserSCRAMCredentialsRequestUpsertion{Name: name, Mechanism: m, Iterations: iterations, Salt: []byte("salt"),
			SaltedPassword: make([]byte, salted)}
	}
	alter := func(password string, ups ...kmsg.AlterUserSCRAMCredentialsRequestUpsertion) int16 {
		req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		req.Upsertions = ups
		rs := ask(password, req).(*kmsg.AlterUserSCRAMCredentialsResponse).Results
		require.Len(t, rs, 1)
		return rs[0].ErrorCode
	}
	require.Equal(t, kerr.ClusterAuthorizationFailed.Code, alter("rw", up("u", 1, 4096, 32)))
	require.Equal(t, kerr.UnacceptableCredential.Code, alter("admin", up("u", 1, 4095, 32)))
	require.Equal(t, kerr.UnacceptableCredential.Code, alter("admin", up("u", 1, 16385, 32)))
	require.Equal(t, kerr.UnacceptableCredential.Code, alter("admin", up("u", 2, 4096, 32)))
	require.Equal(t, kerr.UnacceptableCredential.Code, alter("admin", up("", 1, 4096, 32)))
	require.Equal(t, kerr.UnsupportedSaslMechanism.Code, alter("admin", up("u", 3, 4096, 32)))
	require.Equal(t, kerr.DuplicateResource.Code, alter("admin", up("u", 1, 4096, 32), up("u", 1, 4096, 32)))
	require.Zero(t, alter("admin", up("u", 1, 4096, 32), up("u", 2, 4096, 64)))
	require.Equal(t, kerr.UnacceptableCredential.Code, alter("b", up("u", 1, 4096, 32)))
	seen := ask("b", kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()).(*kmsg.DescribeUserSCRAMCredentialsResponse)
	require.Empty(t, seen.Results)
}

// Goal: the bytes of a user's row are those of the format page; the keys are those that the mechanism's standard derives.
func TestUserRow(t *testing.T) {
	b, err := json.Marshal(user{V: 1, Tenant: auth.DefaultTenant.String(), SHA256: &userKey{Salt: []byte{1}, Iterations: 4096,
		Stored: []byte{2}, Server: []byte{3}}})
	require.NoError(t, err)
	require.Equal(t, `{"v":1,"tenant":"00000000-0000-0000-0000-000000000001","sha256":{"salt":"AQ==","iterations":4096,`+
		`"stored":"Ag==","server":"Aw=="}}`, string(b))
	client, err := xdg.SHA256.NewClient("u", "pencil", "")
	require.NoError(t, err)
	want, err := client.GetStoredCredentialsWithError(xdg.KeyFactors{Salt: "salt", Iters: 4096})
	require.NoError(t, err)
	mac := hmac.New(hashOf(ScramSHA256), []byte("pencil"))
	mac.Write([]byte("salt\x00\x00\x00\x01"))
	salted := mac.Sum(nil)
	for u, i := salted, 1; i < 4096; i++ {
		mac.Reset()
		mac.Write(u)
		u = mac.Sum(nil)
		next := make([]byte, len(salted))
		for j := range next {
			next[j] = salted[j] ^ u[j]
		}
		salted = next
	}
	got := newUserKey(ScramSHA256, []byte("salt"), salted, 4096)
	require.Equal(t, want.StoredKey, got.Stored)
	require.Equal(t, want.ServerKey, got.Server)
	_, err = decodeUser([]byte(`{"v":2}`))
	require.ErrorContains(t, err, "version 2")
}

func FuzzUserRow(f *testing.F) {
	f.Add([]byte(`{"v":1,"tenant":"00000000-0000-0000-0000-000000000001","sha256":{"salt":"AQ==","iterations":4096,"stored":"Ag==","server":"Aw=="}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if u, err := decodeUser(b); err == nil && u.SHA256 != nil && u.SHA256.Iterations > iterationsMax {
			t.Error(u.SHA256.Iterations)
		}
	})
}
