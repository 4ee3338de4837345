package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

const (
	hidden        = "***"
	maxSecretFile = 64 << 10 // bytes; a password file of more is some other file
)

// The mechanisms of kafka.sasl.
const (
	saslPlain    = "plain"
	saslScram256 = "scram-sha-256"
	saslScram512 = "scram-sha-512"
)

// secretFrom is one place where a password may be written.
type secretFrom struct {
	key  string
	set  bool
	read func() (string, error)
}

// secret picks the password set at the most specific level (flag over variable over file); at one level the first of the
// places holds. None set: empty, which is a password too.
func (c *Config) secret(places ...secretFrom) (string, error) {
	var best *secretFrom
	for _, p := range places {
		if p.set && (best == nil || c.origins.of(p.key).source > c.origins.of(best.key).source) {
			best = &p
		}
	}
	if best == nil {
		return "", nil
	}
	s, err := best.read()
	if err != nil {
		return "", usageErrorf("%s: %w", best.key, err)
	}
	return s, nil
}

func literal(key, value string) secretFrom {
	return secretFrom{key, value != "", func() (string, error) { return value, nil }}
}

func fromSecretFile(key, path string) secretFrom {
	return secretFrom{key, path != "", func() (string, error) { return readSecret(path) }}
}

var errSecretFile = errors.New("is too large to be a password file")

// readSecret reads a password file: all of it but the line end that editors put.
func readSecret(path string) (string, error) {
	b, err := os.ReadFile(path) //nolint:gosec // the operator's own configuration names it
	if err != nil {
		return "", err //nolint:wrapcheck // names the file already
	}
	if len(b) > maxSecretFile {
		return "", fmt.Errorf("%s %w", path, errSecretFile)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

// LedgerDSN is where the ledger is, and the password to use. An option file fills in what the DSN does not say.
func (c *Config) LedgerDSN() (dsn, password string, err error) {
	if c.Ledger.DSN == "" {
		return "", "", usageErrorf("the ledger's server is not configured: set ledger.dsn, %s or --dsn", envName("ledger.dsn"))
	}
	parsed, err := mysql.ParseDSN(c.Ledger.DSN)
	if err != nil || parsed.DBName == "" {
		return "", "", usageErrorf("ledger.dsn (%s): %s cannot be read; expected user@tcp(host:port)/schema", c.origins.of("ledger.dsn"), mysqlx.Redact(c.Ledger.DSN))
	}
	var options optionFile
	if c.Ledger.OptionFile != "" {
		if options, err = readOptionFile(c.Ledger.OptionFile); err != nil {
			return "", "", usageErrorf("ledger.option_file: %w", err)
		}
		options.fill(parsed)
	}
	password, err = c.secret(
		literal("ledger.password", c.Ledger.Password),
		fromSecretFile("ledger.password_file", c.Ledger.PasswordFile),
		literal("ledger.dsn", parsed.Passwd),
		secretFrom{"ledger.option_file", options.password != "", func() (string, error) { return options.password, nil }},
	)
	if err != nil {
		return "", "", err
	}
	parsed.Passwd = ""
	return parsed.FormatDSN(), password, nil
}

// redactURL hides the password in a URL, and in one that cannot be parsed all of it.
func redactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(unreadable url)"
	}
	if u.User != nil {
		if _, has := u.User.Password(); has {
			// Not url.UserPassword: it would print the stars as %2A.
			name := url.User(u.User.Username()).String()
			u.User = nil
			return strings.Replace(u.String(), "://", "://"+name+":"+hidden+"@", 1)
		}
	}
	return u.String()
}

var errRedisURL = errors.New("expected redis://host:port/db, rediss://… or unix://path")

// checkRedisURL hides the client's error text, which may repeat the URL and with it the password.
func checkRedisURL(s string) error {
	if _, err := redis.ParseURL(s); err != nil {
		return fmt.Errorf("%s: %w", redactURL(s), errRedisURL)
	}
	return nil
}
