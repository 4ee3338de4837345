package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/idemctl/idemctl/internal/lab"
)

const (
	// suite is the Debian suite that has the newest servers.
	suite   = "sid"
	keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
)

// unpackable are the packages that hold a server and need no installation.
func unpackable(kind lab.Kind) string {
	switch kind {
	case lab.KindMariaDB:
		return "mariadb-server-core"
	case lab.KindMySQL:
		return "mysql-server-core"
	case lab.KindRedis:
		return "redis-server"
	case lab.KindValkey:
		return "valkey-server"
	case lab.KindKafka, lab.KindEmbedded:
	}
	return ""
}

// getUnpacked fetches a server of Debian's newest suite with all the libraries it needs, and unpacks them into the cache.
// Nothing is installed: the server runs by the unpacked loader on the unpacked libraries.
func (d *deps) getUnpacked(ctx context.Context, n need) error {
	mirror, err := d.mirror(ctx)
	if err != nil {
		return err
	}
	pkg := unpackable(n.kind)
	d.sayf(n, "fetching Debian's %s and its libraries (unpacked, not installed)", pkg)
	return d.inTemp(func(dir string) error {
		name := strings.ToLower(string(n.kind))
		root := filepath.Join(dir, "servers", name+"-new")
		if err := d.unpack(ctx, dir, root, mirror, pkg); err != nil {
			return err
		}
		// The suite moves on, so the server is asked what it is.
		in, err := lab.Host{Cache: dir}.Find(ctx, n.kind, n.version)
		if err != nil {
			newest, aerr := lab.Host{Cache: dir}.Find(ctx, n.kind, "")
			if aerr != nil {
				return fmt.Errorf("what was fetched does not run on this machine: %w", aerr)
			}
			return fmt.Errorf("Debian has %s %s now, not %s", newest.Kind, newest.Version, n.version) //nolint:staticcheck // a name
		}
		return settle(root, filepath.Join(d.host.Servers(), name+"-"+majorMinor(in.Version)))
	})
}

func majorMinor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// mirror is the Debian mirror that this machine's apt uses, so that no address is written down here.
func (d *deps) mirror(ctx context.Context) (string, error) {
	if !d.has("apt-get") || !d.has("dpkg-deb") {
		return "", errors.New("only Debian has it as a package that can be unpacked")
	}
	out, err := d.output(ctx, "", "apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		_, uri, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && strings.HasSuffix(strings.TrimSuffix(uri, "/"), "/debian") {
			return uri, nil
		}
	}
	return "", errors.New("no Debian mirror is among apt's sources")
}

// packageName is what `apt-cache depends --recurse` prints at the beginning of a line; alternatives and virtual packages
// are indented or in angle brackets.
var packageName = regexp.MustCompile(`(?m)^[a-z0-9][a-z0-9.+-]*$`)

func (d *deps) unpack(ctx context.Context, dir, root, mirror, pkg string) error {
	lists, debs := filepath.Join(dir, "lists"), filepath.Join(dir, "debs")
	for _, f := range []string{filepath.Join(lists, "partial"), debs, root} {
		if err := os.MkdirAll(f, 0o755); err != nil { //nolint:gosec // holds packages that anyone may read
			return fmt.Errorf("making the cache folder: %w", err)
		}
	}
	source := filepath.Join(dir, "sources.list")
	if err := os.WriteFile(source, []byte("deb [signed-by="+keyring+"] "+mirror+" "+suite+" main\n"), 0o600); err != nil {
		return fmt.Errorf("writing apt's source: %w", err)
	}
	// A world of its own for apt: neither the machine's lists nor its sources are touched, and root is not needed.
	world := []string{
		"-oDir::Etc::SourceList=" + source, "-oDir::Etc::SourceParts=/dev/null", "-oDir::State::Lists=" + lists,
		"-oDir::Cache::pkgcache=", "-oDir::Cache::srcpkgcache=", "-oAPT::Sandbox::User=root",
	}
	if err := d.command(ctx, dir, slices.Concat([]string{"apt-get"}, world, []string{"update", "-qq"})...); err != nil {
		return err
	}
	depends, err := d.output(ctx, dir, slices.Concat([]string{"apt-cache"}, world, []string{
		"depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances", pkg,
	})...)
	if err != nil {
		return err
	}
	names := packageName.FindAllString(depends, -1)
	slices.Sort(names)
	download := slices.Concat([]string{"apt-get"}, world, []string{"download", "-qq"}, slices.Compact(names))
	if err := d.command(ctx, debs, download...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil || len(files) == 0 {
		return errors.Join(errors.New("apt-get downloaded nothing"), err)
	}
	for _, f := range files {
		if err := d.command(ctx, dir, "dpkg-deb", "-x", f, root); err != nil {
			return err
		}
	}
	return nil
}
