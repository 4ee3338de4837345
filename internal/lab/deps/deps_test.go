package main

import (
	"archive/zip"
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/testenv"
)

// env makes a getenv that knows these variables only.
func env(t *testing.T, vars map[string]string) func(string) string {
	t.Helper()
	all := map[string]string{"PATH": t.TempDir(), "HOME": t.TempDir()}
	maps.Copy(all, vars)
	return func(name string) string { return all[name] }
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	configured := map[string]string{testenv.EnvMySQL: "a", testenv.EnvRedis: "b", testenv.EnvKafka: "c"}
	for _, c := range []struct {
		name string
		args []string
		vars map[string]string
		code int
		says string
	}{
		{"all configured", nil, configured, 0, testenv.EnvMySQL},
		{"unknown flag", []string{"--nope"}, configured, exitUsage, "nope"},
		{"unknown requirement", []string{"--require", "kafka,pulsar"}, configured, exitUsage, "pulsar"},
		{"argument", []string{"extra"}, configured, exitUsage, "extra"},
		{"no cache folder", nil, map[string]string{"HOME": ""}, exitUsage, "HOME"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), c.args, &out, &errs, env(t, c.vars))
		if code != c.code || !strings.Contains(out.String()+errs.String(), c.says) {
			t.Errorf("%s: exit code %d, want %d; it says:\n%s%s", c.name, code, c.code, out.String(), errs.String())
		}
	}
}

// What is required and not to be had makes it fail, what is optional does not, and both are named.
func TestRequiredAndOptional(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		required bool
		code     int
		says     string
	}{{true, exitMissing, "MISSING"}, {false, 0, "left out"}} {
		var out bytes.Buffer
		d := &deps{host: lab.Host{Path: []string{t.TempDir()}, Cache: t.TempDir()}, getenv: env(t, nil), out: &out, errs: &out}
		code := d.run(t.Context(), []need{{kind: lab.KindKafka, env: testenv.EnvKafka, required: c.required}})
		if code != c.code || !strings.Contains(out.String(), c.says) || !strings.Contains(out.String(), "Java 17") {
			t.Errorf("required %v: exit code %d, want %d; it says: %s", c.required, code, c.code, out.String())
		}
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if code := run(ctx, nil, &out, &out, env(t, nil)); code != exitMissing || !strings.Contains(out.String(), "interrupted") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}

// A folder with its final name is whole: a failure half-way leaves nothing.
func TestFailureLeavesNothing(t *testing.T) {
	t.Parallel()
	bin, cache := t.TempDir(), t.TempDir()
	for name, script := range map[string]string{
		"java": `echo 'openjdk version "17.0.15"' >&2`,
		"mvn":  `for a; do case $a in -DoutputDirectory=*) mkdir -p "${a#*=}"; : > "${a#*=}/kafka_2.13.jar";; esac; done; echo disk on fire; exit 1`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	d := &deps{host: lab.Host{Path: []string{bin, "/usr/bin", "/bin"}, Cache: cache}, getenv: env(t, nil), out: &out, errs: &out}
	if code := d.run(t.Context(), []need{{kind: lab.KindKafka, required: true}}); code != exitMissing || !strings.Contains(out.String(), "disk on fire") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
	left, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if e.Name() != "servers" {
			t.Errorf("%s is left in the cache", e.Name())
		}
	}
}

func TestJavaVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{`openjdk version "17.0.15" 2025-04-15`, true},
		{`openjdk version "21" 2023-09-19`, true},
		{`java version "1.8.0_392"`, false},
		{`openjdk version "11.0.2"`, false},
		{"nonsense", false},
	} {
		dir := t.TempDir()
		for name, script := range map[string]string{"java": "echo '" + c.text + "' >&2", "mvn": ":"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		d := &deps{host: lab.Host{Path: []string{dir}}}
		if err := d.java(t.Context()); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

func TestUnzip(t *testing.T) {
	t.Parallel()
	jar := filepath.Join(t.TempDir(), "x.jar")
	f, err := os.Create(jar)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for _, name := range []string{"a/linux/bin/server", "a/linux/share/text", "a/linux/scripts/no", "a/linux/../../../../out", "META-INF/x"} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "root")
	inBinOrShare := func(name string) string {
		_, rel, _ := strings.Cut(name, "/linux/")
		if strings.HasPrefix(rel, "bin/") || strings.HasPrefix(rel, "share/") {
			return rel
		}
		return ""
	}
	if err := unzip(jar, root, inBinOrShare); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, rel := range []string{"bin/server", "share/text", "scripts/no"} {
		if fi, err := os.Stat(filepath.Join(root, rel)); err == nil {
			got = append(got, rel+" "+fi.Mode().String())
		}
	}
	if want := []string{"bin/server -rwxr-xr-x", "share/text -rw-r--r--"}; !slices.Equal(got, want) {
		t.Errorf("unpacked %q, want %q", got, want)
	}
	escape := func(name string) string { _, rel, _ := strings.Cut(name, "/linux/"); return rel }
	if err := unzip(jar, filepath.Join(t.TempDir(), "root"), escape); err == nil || !strings.Contains(err.Error(), "out") {
		t.Errorf("an entry that leaves the folder: %v", err)
	}
	if err := unzip(jar, filepath.Join(t.TempDir(), "root"), func(string) string { return "" }); err == nil {
		t.Error("a jar without a server is unpacked")
	}
}

func TestPackageNames(t *testing.T) {
	t.Parallel()
	text := "mysql-server-core\n  Depends: libc6\n  Depends: <perl:any>\n    perl\nlibc6\n<perl:any>\nlibstdc++6\n"
	if got, want := packageName.FindAllString(text, -1), []string{"mysql-server-core", "libc6", "libstdc++6"}; !slices.Equal(got, want) {
		t.Errorf("packages %q, want %q", got, want)
	}
	for version, want := range map[string]string{"9.7.4": "9.7", "11.8": "11.8", "8.0.6": "8.0"} {
		if got := majorMinor(version); got != want {
			t.Errorf("majorMinor(%s) = %s", version, got)
		}
	}
}
