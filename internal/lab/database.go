package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// MariaDB starts a MariaDB. Over TCP, root has no password.
func MariaDB(ctx context.Context, opts LaunchOptions) (*Server, error) {
	return database(ctx, opts, KindMariaDB)
}

// MySQL starts a MySQL. Over TCP, root has no password.
func MySQL(ctx context.Context, opts LaunchOptions) (*Server, error) {
	return database(ctx, opts, KindMySQL)
}

func database(ctx context.Context, opts LaunchOptions, kind Kind) (*Server, error) {
	p, err := opts.Host.find(ctx, kind, opts.Version)
	if err != nil {
		return nil, err
	}
	return launch(ctx, opts, kind, func(ctx context.Context, s *Server) (*recipe, error) {
		d := &databaseFiles{program: p, dir: s.Dir}
		r := &recipe{name: p.String(), program: p.path, ports: 1, ready: databaseReady}
		if err := d.make(s, r); err != nil {
			return nil, &StartError{Server: r.name, Program: p.path, Err: err}
		}
		args := d.common(r.as)
		var initErr error
		if kind == KindMariaDB {
			initErr = d.initMariaDB(ctx, s, r, args)
		} else {
			initErr = s.runTool(ctx, r, p.argv(slices.Concat(args, []string{"--initialize-insecure"})...), "")
		}
		if initErr != nil {
			return nil, initErr
		}
		r.argv = func(ports []int) ([]string, error) {
			return p.argv(slices.Concat(args, d.serverArgs(ports[0]), opts.Args)...), nil
		}
		return r, nil
	})
}

// databaseFiles knows where a MySQL-family server's files are: those of the package, and those of this run.
type databaseFiles struct {
	program *program
	dir     string
	share   string // the package's folder of messages and system tables
}

func (d *databaseFiles) data() string     { return filepath.Join(d.dir, "data") }
func (d *databaseFiles) tmp() string      { return filepath.Join(d.dir, "tmp") }
func (d *databaseFiles) files() string    { return filepath.Join(d.dir, "files") }
func (d *databaseFiles) initFile() string { return filepath.Join(d.dir, "init.sql") }

// initSQL runs at every start. With it root may connect from 127.0.0.1 by that name, whatever the host's name resolution
// makes of the address.
const initSQL = `CREATE USER IF NOT EXISTS 'root'@'127.0.0.1';
GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
`

// make makes the folders of this run and decides which account they belong to.
func (d *databaseFiles) make(s *Server, r *recipe) error {
	for _, sub := range []string{"mysql", "mariadb", "."} {
		dir := filepath.Join(d.program.base, "share", sub)
		if _, err := os.Stat(filepath.Join(dir, "charsets")); err == nil {
			d.share = dir
			break
		}
	}
	if d.share == "" {
		return fmt.Errorf("no folder of messages and character sets below %s/share", d.program.base)
	}
	r.as = databaseAccount(filepath.Dir(d.program.path), d.share, s.Dir)
	for _, dir := range []string{d.data(), d.tmp(), d.files()} {
		if err := makeDir(dir, r.as); err != nil {
			return err
		}
	}
	err := os.WriteFile(d.initFile(), []byte(initSQL), 0o600)
	if err == nil { // by chmod, since a umask would take it away again: the database's account reads it, it holds no secret
		err = os.Chmod(d.initFile(), 0o644) //nolint:gosec // see above
	}
	if err != nil {
		return fmt.Errorf("writing its first statements: %w", err)
	}
	return nil
}

// common are the arguments that initialising and running share. --no-defaults must be the first: option files of the
// machine are not ours to follow.
func (d *databaseFiles) common(as *account) []string {
	args := []string{
		"--no-defaults", "--basedir=" + d.program.base, "--lc-messages-dir=" + d.share,
		"--character-sets-dir=" + filepath.Join(d.share, "charsets"), "--datadir=" + d.data(), "--tmpdir=" + d.tmp(),
	}
	for _, sub := range []string{"lib/mysql/plugin", "lib/plugin"} {
		if dir := filepath.Join(d.program.base, sub); isDir(dir) {
			args = append(args, "--plugin-dir="+dir)
			break
		}
	}
	if d.program.kind == KindMySQL {
		args = append(args, "--secure-file-priv=NULL", "--innodb-redo-log-capacity=128M")
	} else {
		args = append(args, "--secure-file-priv="+d.files(), "--innodb-log-file-size=64M")
	}
	if as == nil && os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	return args
}

func (d *databaseFiles) serverArgs(port int) []string {
	args := []string{
		"--bind-address=" + loopback, "--port=" + strconv.Itoa(port),
		// Relative to the data folder: the path of a socket may have 107 bytes at most, and a temporary folder has more.
		"--socket=s.sock", "--pid-file=s.pid",
		"--init-file=" + d.initFile(), "--skip-name-resolve", "--default-time-zone=+00:00",
		"--innodb-buffer-pool-size=256M", "--max-connections=1000", "--skip-log-bin",
	}
	if d.program.kind == KindMySQL {
		args = append(args, "--mysqlx=OFF")
	}
	return args
}

// initMariaDB feeds the package's own SQL of the system tables to a server in bootstrap mode: half a second, where the
// package's script takes several.
func (d *databaseFiles) initMariaDB(ctx context.Context, s *Server, r *recipe, args []string) error {
	sql, err := d.systemTables()
	if err == nil {
		err = makeDir(filepath.Join(d.data(), "mysql"), r.as)
	}
	if err != nil {
		return &StartError{Server: r.name, Program: r.program, Err: err}
	}
	// What a crash in this moment would lose is thrown away anyway.
	return s.runTool(ctx, r, d.program.argv(slices.Concat(args, []string{
		"--bootstrap", "--max-allowed-packet=8M", "--innodb-buffer-pool-size=32M",
		"--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite",
	})...), sql)
}

// makeDir makes a folder that belongs to the account the server runs as (nil: as we run).
func makeDir(dir string, as *account) error {
	err := os.Mkdir(dir, 0o750)
	if err == nil && as != nil {
		err = os.Chown(dir, int(as.uid), int(as.gid))
	}
	if err != nil {
		return fmt.Errorf("making its folders: %w", err)
	}
	return nil
}

// systemTables reads the SQL that makes a MariaDB's system tables. The files were renamed in 11.0.
func (d *databaseFiles) systemTables() (string, error) {
	var b strings.Builder
	b.WriteString("use mysql;\n")
	for _, part := range []string{"system_tables", "performance_tables", "system_tables_data"} {
		text, err := os.ReadFile(filepath.Join(d.share, "mariadb_"+part+".sql")) //nolint:gosec // a file of the package whose server is run
		if errors.Is(err, os.ErrNotExist) {
			text, err = os.ReadFile(filepath.Join(d.share, "mysql_"+part+".sql")) //nolint:gosec // as above
		}
		if err != nil {
			return "", fmt.Errorf("reading the SQL of its system tables: %w", err)
		}
		b.Write(text)
	}
	return b.String(), nil
}

// databaseReady asks the server for its version and its data folder.
func databaseReady(ctx context.Context, s *Server, _ int) error {
	db, err := mysqlx.Open(mysqlx.Options{DSN: s.DSN("mysql"), MaxOpen: 1})
	if err != nil {
		return fmt.Errorf("asking %s: %w", s.Addr, err)
	}
	defer db.Close() //nolint:errcheck // asked again, or not needed any more
	var version, data string
	if err := db.QueryRowContext(ctx, "SELECT VERSION(), @@datadir").Scan(&version, &data); err != nil {
		return fmt.Errorf("asking %s: %w", s.Addr, err)
	}
	want, err := filepath.EvalSymlinks(filepath.Join(s.Dir, "data"))
	if err != nil {
		return fmt.Errorf("asking %s: %w", s.Addr, err)
	}
	if got, err := filepath.EvalSymlinks(data); err != nil || got != want {
		return fmt.Errorf("another server answers at %s: its data are in %s", s.Addr, data)
	}
	version, _, _ = strings.Cut(version, "-")
	s.named(version)
	return nil
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}
