package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Kind is a server's make.
type Kind string

// The makes that the lab can start.
const (
	KindMariaDB  Kind = "MariaDB"
	KindMySQL    Kind = "MySQL"
	KindRedis    Kind = "Redis"
	KindValkey   Kind = "Valkey"
	KindKafka    Kind = "Apache Kafka"
	KindEmbedded Kind = "kfake (embedded)"
)

// programNames are the file names a make's server goes by. Debian's MariaDB is mysqld too, so a name proves nothing:
// the program is asked.
func programNames(kind Kind) []string {
	switch kind {
	case KindMariaDB:
		return []string{"mariadbd", "mysqld"}
	case KindMySQL:
		return []string{"mysqld"}
	case KindRedis:
		return []string{"redis-server"}
	case KindValkey:
		return []string{"valkey-server"}
	case KindKafka, KindEmbedded:
	}
	return nil
}

// program is a server program that was found and asked for its version.
type program struct {
	kind    Kind
	path    string // of the server program itself
	version string // "10.11.19"
	// prefix is put before the program and its arguments: the dynamic loader of an unpacked package and its library path.
	prefix []string
	base   string // what the server calls its base folder: the one that holds share/; empty for Redis
}

func (p *program) String() string { return string(p.kind) + " " + p.version }

// argv is the command line that runs the program with args.
func (p *program) argv(args ...string) []string {
	return slices.Concat(p.prefix, []string{p.path}, args)
}

// Installation is a server of this machine, as a person would list it.
type Installation struct {
	Kind    Kind
	Version string
	Path    string
}

// Find looks for a server of that make whose version begins with version ("" = any, "11.8" = 11.8.x). The installed one
// comes before those in the cache. The error is a [*NotFoundError] when there is none.
func (h Host) Find(ctx context.Context, kind Kind, version string) (Installation, error) {
	if kind == KindKafka {
		java, err := h.findKafka()
		if err != nil {
			return Installation{}, err
		}
		return Installation{Kind: kind, Version: KafkaVersion, Path: java}, nil
	}
	p, err := h.find(ctx, kind, version)
	if err != nil {
		return Installation{}, err
	}
	return Installation{Kind: p.kind, Version: p.version, Path: p.path}, nil
}

func (h Host) find(ctx context.Context, kind Kind, version string) (*program, error) {
	for _, c := range h.candidates(kind) {
		if err := ask(ctx, c); err != nil {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("looking for %s: %w", kind, ctx.Err())
			}
			continue // not a program of this machine, or of another make
		}
		if c.kind == kind && (version == "" || c.version == version || strings.HasPrefix(c.version, version+".")) {
			return c, nil
		}
	}
	return nil, &NotFoundError{Server: strings.TrimSpace(string(kind) + " " + version), Hint: hint(kind, version)}
}

func hint(kind Kind, version string) string {
	switch {
	case version != "":
		return "run `go run ./internal/lab/deps --all`"
	case kind == KindMySQL:
		return "run `make deps`, or install a package that has mysqld"
	case kind == KindKafka:
		return "run `make deps`; it needs Java 17 or later and mvn"
	default:
		return fmt.Sprintf("run `make deps`, or install the package that has %s", programNames(kind)[0])
	}
}

// candidates lists the files that may be a server of that make, best first.
func (h Host) candidates(kind Kind) []*program {
	var out []*program
	seen := map[string]bool{}
	add := func(p *program) {
		target, err := filepath.EvalSymlinks(p.path)
		if err != nil || seen[target] {
			return
		}
		if fi, err := os.Stat(target); err != nil || fi.IsDir() || fi.Mode()&0o111 == 0 {
			return
		}
		seen[target] = true
		if p.base == "" { // the package's share/ lies beside the folder of the real file, not of a link to it
			p.base = filepath.Dir(filepath.Dir(target))
		}
		out = append(out, p)
	}
	for _, name := range programNames(kind) {
		for _, dir := range h.Path {
			if filepath.IsAbs(dir) {
				add(&program{path: filepath.Join(dir, name)})
			}
		}
	}
	if h.Cache == "" {
		return out
	}
	// The newest of several comes first: names differ in their version only.
	dirs, err := filepath.Glob(filepath.Join(h.Servers(), strings.ToLower(string(kind))+"-*"))
	if err != nil {
		return out // only a malformed pattern: there is nothing to find then
	}
	slices.Sort(dirs)
	slices.Reverse(dirs)
	for _, dir := range dirs {
		for _, name := range programNames(kind) {
			for _, sub := range []string{"usr/sbin", "usr/bin", "bin"} {
				base := filepath.Join(dir, filepath.Dir(sub))
				add(&program{path: filepath.Join(dir, sub, name), base: base, prefix: loader(base)})
			}
		}
	}
	return out
}

// loader returns the dynamic loader that an unpacked Debian package carries, with its library path, or nothing: the
// package's libraries are newer than the system's and must not mix with them.
func loader(usr string) []string {
	found, err := filepath.Glob(filepath.Join(usr, "lib", "*-linux-gnu", "ld-linux-*.so.*"))
	if err != nil || len(found) == 0 {
		return nil
	}
	lib := filepath.Dir(found[0])
	return []string{found[0], "--library-path", lib + ":" + filepath.Join(usr, "lib", "mysql", "private")}
}

// versionLine reads what the four makes print for --version:
//
//	mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)
//	/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))
//	Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=…
//	Valkey server v=9.1.0 sha=00000000:0 …
var versionLine = regexp.MustCompile(`(?:Ver |server v=)(\d+\.\d+(?:\.\d+)?)(\S*)`)

// askTimeout bounds one --version: a program that does not answer it is not the one looked for.
const askTimeout = 10 * time.Second

// ask runs the program with --version and fills in what it is.
func ask(ctx context.Context, p *program) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	argv := p.argv("--version")
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output() //nolint:gosec // the program was found by us
	if err != nil {
		return fmt.Errorf("asking %s for its version: %w", p.path, err)
	}
	text := string(out)
	m := versionLine.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("asking %s for its version: it prints %q", p.path, text)
	}
	p.version = m[1]
	switch {
	case strings.Contains(text, "Valkey server"):
		p.kind = KindValkey
	case strings.Contains(text, "Redis server"):
		p.kind = KindRedis
	case strings.Contains(text, "MariaDB"):
		p.kind = KindMariaDB
	default:
		p.kind = KindMySQL
	}
	return nil
}
