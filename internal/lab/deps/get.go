package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/idemctl/idemctl/internal/lab"
)

// get tries the ways to get a server, the best first. An error says why none of them worked, and what a person can do.
func (d *deps) get(ctx context.Context, n need) error {
	if n.kind == lab.KindKafka {
		return d.getKafka(ctx, n)
	}
	if n.version != "" || n.kind == lab.KindMySQL {
		return d.getUnpacked(ctx, n)
	}
	if d.has("apt-get") {
		if become, ok := d.root(ctx); ok {
			return d.install(ctx, n, become)
		}
	}
	if err := d.getArtifact(ctx, n); err != nil {
		return fmt.Errorf("%w\n  %s, or name servers in %s", err, d.advice(n), n.env)
	}
	return nil
}

// advice names the package to install by hand.
func (d *deps) advice(n need) string {
	pkg := map[lab.Kind][3]string{
		lab.KindMariaDB: {"mariadb-server", "mariadb", "mariadb-server"},
		lab.KindRedis:   {"redis-server", "redis", "redis"},
	}[n.kind]
	switch {
	case d.has("apt-get"):
		return "Have root install it: apt-get install " + pkg[0]
	case d.has("brew"):
		return "Install it: brew install " + pkg[1]
	default:
		return "Install the package " + pkg[2]
	}
}

// has reports that a program is in the host's folders.
func (d *deps) has(program string) bool { return d.lookPath(program) != "" }

func (d *deps) lookPath(program string) string {
	for _, dir := range d.host.Path {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil && filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}

// root returns what to put before a command so that it runs as root. sudo is only used when it needs no password or can
// ask for one at a terminal.
func (d *deps) root(ctx context.Context) (become []string, ok bool) {
	if os.Geteuid() == 0 {
		return nil, true
	}
	if !d.has("sudo") {
		return nil, false
	}
	if fi, err := os.Stdin.Stat(); err == nil && fi.Mode()&os.ModeCharDevice != 0 {
		return []string{"sudo"}, true
	}
	if d.command(ctx, "", "sudo", "-n", "true") != nil {
		return nil, false
	}
	return []string{"sudo", "-n"}, true
}

// installScript installs packages without starting their services: the lab starts servers of its own, and a service
// that nobody asked for would stay behind. A policy of the machine's own is left as it is.
const installScript = `set -e
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap 'rm -f $policy' EXIT
  trap 'exit 130' INT TERM HUP
  printf '#!/bin/sh\nexit 101\n' > $policy
  chmod 755 $policy
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends "$@"
`

func (d *deps) install(ctx context.Context, n need, become []string) error {
	pkg := map[lab.Kind]string{lab.KindMariaDB: "mariadb-server", lab.KindRedis: "redis-server"}[n.kind]
	d.sayf(n, "installing the package %s (its service is not started)", pkg)
	return d.command(ctx, "", slices.Concat(become, []string{"sh", "-c", installScript, "sh", pkg})...)
}

// command runs a program and keeps quiet unless it fails; then the end of its output is in the error.
func (d *deps) command(ctx context.Context, dir string, argv ...string) error {
	_, err := d.output(ctx, dir, argv...)
	return err
}

func (d *deps) output(ctx context.Context, dir string, argv ...string) (string, error) {
	path := d.lookPath(argv[0])
	if path == "" {
		return "", fmt.Errorf("%s is not on this machine", argv[0])
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...) //nolint:gosec // programs by name, with arguments of ours
	cmd.Dir = dir
	// What a program finds by name it finds where we found it: apt-get runs gpgv, mvn runs java.
	cmd.Env = append(os.Environ(), "PATH="+strings.Join(d.host.Path, string(filepath.ListSeparator)))
	// In order, so that the installation's trap can run.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptDelay
	var out bytes.Buffer
	var all transcript
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, &all), &all
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("%s: %w%s", argv[0], err, lastLines(all.text.String()))
	}
	return out.String(), nil
}

// interruptDelay is how long an interrupted command may take to end in order: apt-get finishes the package at hand.
const interruptDelay = time.Minute

// transcript keeps what a command writes to either stream, in order; exec copies each from a goroutine of its own.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func lastLines(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	return "; it prints:\n  | " + strings.Join(lines[max(0, len(lines)-10):], "\n  | ")
}

// javaVersion reads `openjdk version "17.0.15"` and `java version "1.8.0_392"`.
var javaVersion = regexp.MustCompile(`version "(?:1\.)?(\d+)`)

// minJava is what Apache Kafka's brokers need from 4.0 on.
const minJava = 17

// java reports why Maven artifacts cannot be fetched or run, or nil.
func (d *deps) java(ctx context.Context) error {
	if !d.has("mvn") || !d.has("java") {
		return errors.New("it needs Java 17 or later and mvn")
	}
	out, err := exec.CommandContext(ctx, d.lookPath("java"), "-version").CombinedOutput() //nolint:gosec // found by name
	if err != nil {
		return fmt.Errorf("asking java for its version: %w", err)
	}
	m := javaVersion.FindSubmatch(out)
	if m == nil {
		return fmt.Errorf("asking java for its version: it prints %q", out)
	}
	if v, err := strconv.Atoi(string(m[1])); err != nil || v < minJava {
		return fmt.Errorf("it needs Java %d or later, java is %s", minJava, m[1])
	}
	return nil
}

// inTemp runs fn with a new folder inside the cache, so that what is complete can be renamed to its place at once: a
// folder with its final name is never half filled.
func (d *deps) inTemp(fn func(dir string) error) (err error) {
	if err := os.MkdirAll(d.host.Servers(), 0o755); err != nil { //nolint:gosec // holds packages that anyone may read
		return fmt.Errorf("making the cache folder: %w", err)
	}
	dir, err := os.MkdirTemp(d.host.Cache, "fetch-")
	if err != nil {
		return fmt.Errorf("making the cache folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return fn(dir)
}

// settle moves a complete folder to its place. Another run may have been faster; what it put there is as good.
func settle(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		if fi, serr := os.Stat(to); serr == nil && fi.IsDir() {
			return nil
		}
		return fmt.Errorf("moving it to its place: %w", err)
	}
	return nil
}
