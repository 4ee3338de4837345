package purge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// ArchiveOptions say where an archive goes and what its manifest says of the run.
type ArchiveOptions struct {
	Dir      string // must exist; it is never made here
	Run      string // the run's name, part of the file's
	Tool     string // version of the program
	Prefix   string // of the ledger's tables
	Month    partition.Month
	LedgerID string
	Server   string // as the server calls itself
	// Now is the clock of the manifest's created_at; nil: time.Now.
	Now func() time.Time
	// FreeSpace says how many bytes a folder's disk still takes; nil: the file system's own word.
	FreeSpace func(folder string) (uint64, error)
}

// table is the name that the archive goes by: the month's, also where its table is held under another one.
func (o *ArchiveOptions) table(sel Selection) string {
	if o.Month == 0 {
		return sel.Table
	}
	return o.Prefix + "_" + o.Month.Digits()
}

// WriteArchive writes the rows of a selection, at most limit of them (0: all), into a new archive, and returns when it is
// on the disk and has been read back and found whole: only then may a row of it be deleted (hazard P8). Rows are read over
// q in short pages, in the order of the expiry index.
//
// Errors are ErrArchiveFolder, ErrNoSpace, ErrArchiveExists, those of the server and of ctx. After any of them nothing of
// the archive is left.
func WriteArchive(ctx context.Context, q mysqlx.Queryer, sel Selection, opts ArchiveOptions, limit int64) (_ *Archive, err error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.FreeSpace == nil {
		opts.FreeSpace = freeSpace
	}
	layout, err := readLayout(ctx, q, sel.Table, sel.Columns, sel.Retention)
	if err != nil {
		return nil, fmt.Errorf("archive %s: %w", sel.Table, err)
	}
	if err := checkFolder(ctx, q, sel.Table, opts, limit); err != nil {
		return nil, fmt.Errorf("archive %s: %w", sel.Table, err)
	}
	name := opts.table(sel) + "." + sel.Cutoff.UTC().Format("20060102T150405Z") + "." + opts.Run
	out, err := createArchive(filepath.Join(opts.Dir, name+archiveSuffix))
	if err != nil {
		return nil, fmt.Errorf("archive %s: %w", sel.Table, err)
	}
	defer func() {
		if err != nil {
			out.discard()
		}
	}()
	m := newManifest(sel, opts, layout, limit)
	if err := out.write(ctx, q, sel, layout, limit, &m); err != nil {
		return nil, fmt.Errorf("archive %s: %w", sel.Table, noSpace(err, opts.Dir))
	}
	a := &Archive{path: out.path, manifest: m}
	if err := a.Verify(ctx); err != nil {
		return nil, fmt.Errorf("archive %s: read back: %w", sel.Table, err)
	}
	if err := a.finish(out); err != nil {
		return nil, fmt.Errorf("archive %s: %w", sel.Table, noSpace(err, opts.Dir))
	}
	return a, nil
}

func newManifest(sel Selection, opts ArchiveOptions, l *tableLayout, limit int64) Manifest {
	m := Manifest{
		Version: manifestVersion, Table: opts.table(sel), Prefix: opts.Prefix, Month: opts.Month,
		Columns: l.columns, ColumnMap: newColumnMap(sel.Columns),
		Condition: ArchiveCondition{Cutoff: sel.Cutoff.UTC(), To: sel.To.UTC(), Limit: limit},
		LedgerID:  opts.LedgerID, Server: opts.Server, Tool: opts.Tool, Run: opts.Run, CreatedAt: opts.Now().UTC().Truncate(time.Millisecond),
	}
	if !sel.From.IsZero() {
		m.Condition.From = sel.From.UTC()
	}
	if l.expire < 0 {
		m.Retention = sel.Retention
	}
	return m
}

// write fills the file and puts it on the disk under its name, and fills in what the manifest says of it.
func (o *archiveOutput) write(ctx context.Context, q mysqlx.Queryer, sel Selection, l *tableLayout, limit int64, m *Manifest) error {
	lines := newLineEncoder(l.columns)
	totals := newArchiveTotals(l)
	scan := tableScan{q: q, layout: l, table: sel.Table, where: sel.Where(), limit: limit}
	pipe := o.start()
	err := scan.run(ctx, func(row []sql.RawBytes) error {
		totals.add(row)
		pipe.buf = lines.append(pipe.buf, row)
		return pipe.flush(chunkSize)
	})
	if perr := pipe.close(); perr != nil && (err == nil || errors.Is(err, errPipeEnded)) {
		err = perr
	}
	if err != nil {
		return err
	}
	if err := o.commit(); err != nil {
		return err
	}
	m.File = filepath.Base(o.path)
	m.Bytes, m.SHA256 = o.size, o.sum()
	m.ContentBytes, m.ContentSHA256 = pipe.size, pipe.sum()
	return totals.fill(m)
}

// finish writes the manifest, the last file, the same way.
func (a *Archive) finish(data *archiveOutput) error {
	b, err := a.manifest.encode()
	if err != nil {
		return err
	}
	out, err := createArchive(a.ManifestPath())
	if err != nil {
		return err
	}
	data.manifest = out
	if _, err := out.Write(b); err != nil {
		return err
	}
	if err := out.commit(); err != nil {
		return err
	}
	read, err := os.ReadFile(a.ManifestPath())
	if err != nil {
		return err
	}
	again, err := decodeManifest(read)
	if err == nil && again.Checksum != a.manifest.Checksum {
		err = errManifestForm
	}
	if err != nil {
		return fmt.Errorf("read back: %w", &ArchiveError{Path: a.ManifestPath(), Fault: FaultManifest, Detail: "it cannot be relied on", Err: err})
	}
	return nil
}

// What an archive takes at most, compared with its table: ids and checksums do not compress, the rest does. With some for
// the manifest and the file system.
const (
	spaceShare  = 2
	spaceMargin = 1 << 20
)

// checkFolder refuses, before anything is read, a folder that is not there or whose disk is too small.
func checkFolder(ctx context.Context, q mysqlx.Queryer, table string, opts ArchiveOptions, limit int64) error {
	info, err := os.Stat(opts.Dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: %s is not there (make it: mkdir -p %s)", ErrArchiveFolder, opts.Dir, opts.Dir)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrArchiveFolder, err)
	case !info.IsDir():
		return fmt.Errorf("%w: %s is no folder", ErrArchiveFolder, opts.Dir)
	}
	free, err := opts.FreeSpace(opts.Dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrArchiveFolder, err)
	}
	var rows, size sql.NullInt64
	if err := q.QueryRowContext(ctx, `SELECT table_rows, data_length FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_name = ?`, table).Scan(&rows, &size); err != nil {
		return fmt.Errorf("size of %s: %w", table, err)
	}
	part := 1.0
	if limit > 0 && rows.Int64 > limit {
		part = float64(limit) / float64(rows.Int64)
	}
	need := uint64(math.Ceil(float64(max(size.Int64, 0))*part))/spaceShare + spaceMargin
	if free < need {
		return fmt.Errorf("%w: the archive may need %s in %s, %s are free", ErrNoSpace, mebibytes(need), opts.Dir, mebibytes(free))
	}
	return nil
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
