package main

import (
	"errors"
	"net"
	"os"
	"time"
)

// waitFlag is a duration that may be 0: not at all.
type waitFlag time.Duration

func (w *waitFlag) String() string {
	if *w == 0 {
		return "0" // which the help does not show as a default
	}
	return formatDuration(time.Duration(*w))
}

// Type implements pflag.Value.
func (w *waitFlag) Type() string { return "duration" }

// Set implements pflag.Value.
func (w *waitFlag) Set(s string) error {
	if s == "0" || s == "0s" {
		*w = 0
		return nil
	}
	parsed, err := parseDuration(s)
	if err != nil {
		return err
	}
	if parsed < 0 {
		return errors.New("must be 0 or more")
	}
	*w = waitFlag(parsed)
	return nil
}

// existingFolder refuses a folder that is not there before any row is looked at. It is never made: a mistyped name would fill
// a disk that nobody watches.
func existingFolder(flag, dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return usageErrorf("%s: there is no folder %s; make it first (mkdir -p %s)", flag, dir, asTyped(dir))
	case err != nil:
		return usageErrorf("%s: %w", flag, err)
	case !info.IsDir():
		return usageErrorf("%s: %s is a file; a folder is needed", flag, dir)
	}
	return nil
}

// replicaAddress reads --replica.
func replicaAddress(s string) (string, error) {
	if host, port, err := net.SplitHostPort(s); err == nil && host != "" && port != "" {
		return s, nil
	}
	return "", usageErrorf("--replica %q: expected HOST:PORT", s)
}
