package purge

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// Compare reads the whole of a table again and compares it, row by row in order, with the archive (hazard P7). A table that
// holds anything else is a *MismatchError; one that holds the same may be dropped.
func (a *Archive) Compare(ctx context.Context, q mysqlx.Queryer, table string) error {
	l, err := readLayout(ctx, q, table, a.manifest.ColumnMap.columns(), a.manifest.Retention)
	if err != nil {
		return fmt.Errorf("compare with archive %s: %w", a.path, err)
	}
	differs := func(format string, args ...any) error {
		return &MismatchError{Table: table, Archive: a.path, Detail: fmt.Sprintf(format, args...)}
	}
	if !slices.Equal(l.columns, a.manifest.Columns) {
		return differs("its columns are others")
	}
	lines, sum := newLineEncoder(l.columns), sha256.New()
	var rows int64
	buf := make([]byte, 0, chunkSize)
	scan := tableScan{q: q, layout: l, table: table}
	err = scan.run(ctx, func(row []sql.RawBytes) error {
		rows++
		if buf = lines.append(buf, row); len(buf) >= chunkSize/2 {
			_, _ = sum.Write(buf) // never fails, by its documentation
			buf = buf[:0]
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("compare with archive %s: %w", a.path, err)
	}
	_, _ = sum.Write(buf)
	switch {
	case rows != a.manifest.Rows:
		return differs("it has %d rows, the archive %d", rows, a.manifest.Rows)
	case hex.EncodeToString(sum.Sum(nil)) != a.manifest.ContentSHA256:
		return differs("as many rows, and not the same")
	}
	return nil
}

// columns is the map as partition has it.
func (c ColumnMap) columns() partition.Columns {
	return partition.Columns{OrderID: c.OrderID, BizType: c.BizType, CreateTime: c.CreateTime, ExpireAt: c.ExpireAt}
}

// hashOf sums what is left of a file.
func hashOf(ctx context.Context, r io.Reader) (string, error) {
	sum := sha256.New()
	buf := make([]byte, outputBuffer)
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := r.Read(buf)
		_, _ = sum.Write(buf[:n]) // never fails, by its documentation
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(sum.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}
