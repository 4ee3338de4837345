package ledger

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// DefaultTokenTTL is how long a front token may wait for its click: as long as someone looks at a form.
const DefaultTokenTTL = 5 * time.Minute

// maxTokenTTL is there to catch a unit mistaken: what must hold longer than a page is open is no front token's business.
const maxTokenTTL = 24 * time.Hour

// tokenBytes of randomness, 128 bits, make a token that nobody guesses.
const tokenBytes = 16

// ErrTokenUnknown says that a token is good for nothing: it was used, has expired, or was never issued for this subject.
// Which of these cannot be told.
var ErrTokenUnknown = errors.New("the token was used, has expired, or was never issued for this subject")

// TokenOptions shape a Token.
type TokenOptions struct {
	// Prefix of the Redis keys; empty means "idempotent-token:". It must not begin as the keys of markers do.
	Prefix string
	// TTL of a token that nobody uses; 0 means DefaultTokenTTL, at most 24 h.
	TTL time.Duration
	// Timeout bounds one call; 0 means 250 ms.
	Timeout time.Duration
}

// Token issues front tokens: a page asks for one when it is shown, the click hands it back, and of several clicks on one
// page the first alone is let through.
//
// That is all it does: it stops a double click, not a replay. It knows the page, not the order, so the same order sent from
// a second page, by a retry with a new token or by Kafka passes. And it lives in Redis alone: a flush or a failover that
// loses the key refuses a first click, and a failover that brings the key back lets a second one through. What may happen
// once per order is decided by a Guard or a StateMachine behind it, whether there is a token or not.
//
// It is safe for concurrent use.
type Token struct {
	client redis.Cmdable
	opts   TokenOptions
}

// NewToken returns an issuer over a client that the caller owns. The client must honour deadlines (ContextTimeoutEnabled).
func NewToken(client redis.UniversalClient, opts TokenOptions) (*Token, error) {
	deadlines := true
	switch c := client.(type) {
	case nil:
		return nil, errors.New("token: no redis client")
	case *redis.Client:
		deadlines = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		deadlines = c.Options().ContextTimeoutEnabled
	}
	if opts.Prefix == "" {
		opts.Prefix = "idempotent-token:"
	}
	if opts.TTL == 0 {
		opts.TTL = DefaultTokenTTL
	}
	if opts.Timeout == 0 {
		opts.Timeout = 250 * time.Millisecond
	}
	switch {
	case !deadlines:
		return nil, errors.New("token: redis client: ContextTimeoutEnabled must be set, or a stalled Redis stalls the page")
	case opts.TTL < time.Second || opts.TTL > maxTokenTTL:
		return nil, fmt.Errorf("token: TTL %v: expected 1s to %v", opts.TTL, maxTokenTTL)
	case opts.Timeout < 0:
		return nil, fmt.Errorf("token: timeout %v: expected 0 or more", opts.Timeout)
	}
	return &Token{client: client, opts: opts}, nil
}

// errTokenSubject says that a token would be bound to nobody.
var errTokenSubject = errors.New("the token's subject is empty")

// Issue makes a token for a subject: who may use it and for what, such as "user 7, pay 20261111-8842". Whoever consumes it
// must name the same subject, byte by byte. The token is 32 hexadecimal digits.
//
// An error that wraps ErrFilterAway says that Redis did not answer; no token is out then.
func (t *Token) Issue(ctx context.Context, subject string) (string, error) {
	if subject == "" {
		return "", fmt.Errorf("issue a token: %w", errTokenSubject)
	}
	var secret [tokenBytes]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return "", fmt.Errorf("issue a token: %w", err)
	}
	token := hex.EncodeToString(secret[:])
	bounded, cancel := context.WithTimeout(ctx, t.opts.Timeout)
	defer cancel()
	// Not NX: where the reply is lost and the client asks again, it would meet its own key.
	if err := t.client.Set(bounded, t.name(subject, token), 1, t.opts.TTL).Err(); err != nil {
		return "", t.away(ctx, "issue a token", err)
	}
	return token, nil
}

// Consume uses a token up: no error, once, is the leave to go on. It is one DEL, so of several that race one alone gets it.
//
// ErrTokenUnknown refuses. Any other error refuses too: one that wraps ErrFilterAway says that Redis did not answer, and
// the token may be used up or not. The page then asks for a new one.
func (t *Token) Consume(ctx context.Context, token, subject string) error {
	if raw, err := hex.DecodeString(token); err != nil || len(raw) != tokenBytes || subject == "" {
		return ErrTokenUnknown
	}
	bounded, cancel := context.WithTimeout(ctx, t.opts.Timeout)
	defer cancel()
	n, err := t.client.Del(bounded, t.name(subject, token)).Result()
	switch {
	case err != nil:
		return t.away(ctx, "consume a token", err)
	case n != 1:
		return ErrTokenUnknown
	}
	return nil
}

// name is a token's key. Subject and token go into it as one digest: another subject names another key, so it can neither
// use the token nor use it up; and whoever reads Redis learns no token.
func (t *Token) name(subject, token string) string {
	sum := sha256.Sum256([]byte(token + subject)) // the token has a fixed length, so no two pairs meet
	return t.opts.Prefix + hex.EncodeToString(sum[:])
}

func (t *Token) away(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, ctx.Err()) // the caller's own end says nothing about Redis
	}
	return fmt.Errorf("%s: %w: %w", what, ErrFilterAway, err)
}
