package auth

// Reason is why a caller was refused: an error whose text is part of the wire contract (http-api 1.3).
type Reason string

// Reasons for which a caller is not known: HTTP answers 401 with these words.
const (
	Required       Reason = "Authentication required"
	BadHeader      Reason = "Bad token header"
	BadSignature   Reason = "Invalid token signature"
	Expired        Reason = "Token has expired"
	NotYetValid    Reason = "Token not yet valid"
	IssuedInFuture Reason = "Token issued in the future"
	BadIssuer      Reason = "Invalid token issuer"
	BadAudience    Reason = "Invalid token audience"
	BadAlgorithm   Reason = "Unsupported token algorithm"
	UnknownKey     Reason = "Unknown key ID"

	// The rest is ours.
	NoExpiry   Reason = "Token has no expiry"
	BadTenant  Reason = "Invalid token tenant"
	BadClaims  Reason = "Invalid token claims"
	BadAPIKey  Reason = "Invalid API key"
	ExpiredKey Reason = "API key has expired"
)

// Denied is the reason for which a known caller may not do what it asks: HTTP answers 403.
const Denied Reason = "Insufficient permissions"

// Unavailable says that the caller could not be judged: the keys of tokens have never been fetched. Trying again helps.
const Unavailable Reason = "The keys of tokens can not be fetched"

// Reasons lists every reason, for the frontends' tests.
var Reasons = []Reason{Required, BadHeader, BadSignature, Expired, NotYetValid, IssuedInFuture, BadIssuer, BadAudience,
	BadAlgorithm, UnknownKey, NoExpiry, BadTenant, BadClaims, BadAPIKey, ExpiredKey, Denied, Unavailable}

func (r Reason) Error() string { return string(r) }
