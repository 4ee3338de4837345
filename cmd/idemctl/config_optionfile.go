package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// optionFile is what a MySQL client's option file (~/.my.cnf) says under [client].
type optionFile struct {
	user, password, host, port, socket, database string
}

var errOptionFile = errors.New("cannot be read as a MySQL option file")

// readOptionFile reads an option file by the rules of MySQL's clients: sections in brackets, name=value, # and ; begin a
// comment line, # also the rest of a line, quotes keep a value as it is, and \b \t \n \r \\ \s are escapes. A dash and an
// underscore in a name are the same. !include is refused: what it names would silently not be read.
func readOptionFile(path string) (optionFile, error) {
	f, err := os.Open(path) //nolint:gosec // the operator's own configuration names it
	if err != nil {
		return optionFile{}, err //nolint:wrapcheck // names the file already
	}
	defer f.Close() //nolint:errcheck // only read
	var o optionFile
	section := ""
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case line[0] == '!':
			return optionFile{}, fmt.Errorf("%s:%d: %w: includes are not followed", path, n, errOptionFile)
		case line[0] == '[':
			section = strings.TrimSpace(strings.Trim(line, "[]"))
			continue
		case section == "":
			return optionFile{}, fmt.Errorf("%s:%d: %w: a value before the first [section]", path, n, errOptionFile)
		}
		if name, value, ok := strings.Cut(line, "="); ok && section == "client" {
			o.set(strings.ReplaceAll(strings.TrimSpace(name), "-", "_"), optionValue(value))
		}
	}
	if err := lines.Err(); err != nil {
		return optionFile{}, fmt.Errorf("%s: %w", path, err)
	}
	return o, nil
}

func (o *optionFile) set(name, value string) {
	for known, field := range map[string]*string{
		"user": &o.user, "password": &o.password, "host": &o.host, "port": &o.port, "socket": &o.socket, "database": &o.database,
	} {
		if name == known {
			*field = value
		}
	}
}

func optionValue(s string) string {
	s = strings.TrimSpace(s)
	if s != "" && (s[0] == '\'' || s[0] == '"') {
		if end := strings.IndexByte(s[1:], s[0]); end >= 0 {
			return unescapeOption(s[1 : 1+end])
		}
	}
	if i := strings.IndexByte(s, '#'); i >= 0 {
		s = strings.TrimSpace(s[:i])
	}
	return unescapeOption(s)
}

func unescapeOption(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\s`, " ", `\b`, "\b", `\t`, "\t", `\n`, "\n", `\r`, "\r").Replace(s)
}

// fill puts into the DSN what it does not say itself. The driver's defaults for an address that was left out are
// tcp and 127.0.0.1:3306.
func (o *optionFile) fill(dsn *mysql.Config) {
	if dsn.User == "" {
		dsn.User = o.user
	}
	if dsn.Net != "tcp" || dsn.Addr != net.JoinHostPort("127.0.0.1", "3306") {
		return
	}
	host, port := "127.0.0.1", "3306"
	if o.host != "" {
		host = o.host
	}
	if o.port != "" {
		port = o.port
	}
	dsn.Addr = net.JoinHostPort(host, port)
	if o.socket != "" && (o.host == "" || o.host == "localhost") {
		dsn.Net, dsn.Addr = "unix", o.socket
	}
}
